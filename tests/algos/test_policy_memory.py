"""Policies that remember: what they learn, and that the update sees what they acted on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from jaxrl_hw import Config, load_run, make_algorithm, make_env, preset_config
from jaxrl_hw.algos import ppo
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.envs.episode import Transition
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.errors import UserError
from jaxrl_hw.training.rollout import collect
from jaxrl_hw.training.train_step import init_train_state, make_train_step
from jaxrl_hw.types import Algorithm, EnvSpec, Observation, Policy, TrainState

N, LENGTH = 64, 3
KINDS = ("history", "gru")


class Recall(NamedTuple):
    """Episodes of three steps: a sign is shown in the first, and asked for in the last."""

    obs: Observation  # policy [N, 1]: the sign, then 0; critic [N, 2]: the sign and the step
    steps: Array  # int32 [N]


def recall() -> Env:
    def begin(key: Array) -> Recall:
        sign = jnp.where(jax.random.bernoulli(key, 0.5, (N,)), 1.0, -1.0)
        return Recall(shown(sign, sign, jnp.zeros(N)), jnp.zeros(N, jnp.int32))

    def shown(seen: Array, sign: Array, step: Array) -> Observation:
        return Observation(seen[:, None], jnp.stack([sign, step], axis=1))

    def reset(key: Array, task_params: Any = None) -> Recall:
        # episodes that do not all end together
        state = begin(key)
        return state._replace(steps=jnp.arange(N, dtype=jnp.int32) % LENGTH)

    def step(
        state: Recall, action: Array, key: Array, task_params: Any = None
    ) -> tuple[Recall, Transition]:
        sign, steps = state.obs.critic[:, 0], state.steps + 1
        ended = steps == LENGTH
        reward = jnp.where(ended, 1.0 - (action[:, 0] - sign) ** 2, 0.0)
        after = Recall(shown(jnp.zeros(N), sign, steps.astype(jnp.float32)), steps)
        going_on = jax.tree.map(
            lambda new, old: jnp.where(ended.reshape(-1, *(1,) * (old.ndim - 1)), new, old),
            begin(key),
            after,
        )
        never, nothing = jnp.zeros(N, bool), jnp.zeros(N)
        moved = Transition(reward, after.obs, ended, never, never, nothing, nothing, {}, {}, {})
        return going_on, moved

    return Env("recall", "none", N, 1, 2, 1, 1.0, None, reset, step)


def learner(memory: str, **changes: Any) -> Algorithm:
    settings = {
        "unroll": 7,  # episodes go over from one iteration to the next
        "minibatch_size": 7 * N // 4,
        "gamma": 0.95,
        "learning_rate": 5e-3,
        "lr_schedule": "fixed",
        "entropy_coef": 0.0,
        "symmetry": "none",
    }
    net = NetConfig((16,), (16,), "tanh", memory, history=3, gru=8, init_std=0.3)  # type: ignore[arg-type]
    return ppo.make(PPOConfig(**(settings | changes)), net, EnvSpec(1, 2, 1))


def trained(algorithm: Algorithm, iterations: int) -> TrainState:
    env = recall()
    step, state = make_train_step(env, algorithm), init_train_state(env, algorithm, 0)
    for _ in range(iterations):
        state, _ = step(state)
    return state


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", *KINDS])
def test_a_policy_with_a_memory_learns_what_one_without_cannot(memory: str) -> None:
    algorithm = learner(memory)
    state = trained(algorithm, 80)
    act = jax.jit(algorithm.policy)
    remembered, answers = algorithm.start(2), None
    for seen in ([[1.0], [-1.0]], [[0.0], [0.0]], [[0.0], [0.0]]):
        answers, remembered = act(state.learner, jnp.asarray(seen), memory=remembered)
    plus, minus = np.asarray(answers)[:, 0]
    if memory == "none":
        assert plus == minus
    else:
        assert plus > 0.5 > -0.5 > minus


@pytest.mark.slow
@pytest.mark.parametrize("memory", KINDS)
def test_the_update_sees_what_the_policy_acted_on(memory: str) -> None:
    """Its probability ratios start at 1, whatever ended within the batch or began before it."""
    algorithm = learner(memory, epochs=1, minibatch_size=7 * N)
    state = trained(algorithm, 5)
    _, batch, seen = collect(recall(), algorithm, state.learner, state.env_state, state.key)
    assert int(seen["episodes_ended"]) > N
    assert all(np.any(leaf != 0.0) for leaf in jax.tree.leaves(batch.memory) if leaf.size)
    _, metrics = jax.jit(algorithm.update)(state.learner, batch, state.key)
    assert float(metrics["clip_fraction"]) == 0.0
    assert float(metrics["kl"]) == pytest.approx(0.0, abs=1e-9)
    empty = batch._replace(memory=algorithm.start(N))
    _, metrics = jax.jit(algorithm.update)(state.learner, empty, state.key)
    assert float(metrics["kl"]) > 1e-7, "what it remembered counts"


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["none", *KINDS])
def test_the_policy_network_learns_to_tell_what_only_the_critic_sees(memory: str) -> None:
    """The step within the episode: where nothing is shown, only a memory knows it."""
    algorithm = learner(memory, estimation_coef=1.0, learning_rate=1e-2)
    state = trained(algorithm, 40)
    _, batch, _ = collect(recall(), algorithm, state.learner, state.env_state, state.key)
    _, metrics = jax.jit(algorithm.update)(state.learner, batch, state.key)
    error = float(metrics["loss/estimation"])
    # in variances of the step: a third of the time it is known, else it is 1 or 2
    blind = (2 / 3) * (1 / 4) / (2 / 3)
    assert error > 0.8 * blind if memory == "none" else error < 0.3 * blind


def test_estimation_is_off_where_the_critic_sees_no_more_or_it_has_no_weight() -> None:
    on = {"estimation_coef": 1.0}
    for settings, critic, is_on in ((on, 2, True), (on, 1, False), ({}, 2, False)):
        net = NetConfig((16,), (16,))
        made = ppo.make(PPOConfig(**settings), net, EnvSpec(1, critic, 1))
        fresh = made.init(jax.random.key(0))
        assert bool(jax.tree.leaves(fresh.params.estimator)) == is_on
        weights = sum(x.size for x in jax.tree.leaves(fresh.params)) - 1  # the noise's
        assert made.needs.network_bytes == 4 * weights


@pytest.mark.parametrize("memory", KINDS)
def test_a_new_episode_remembers_nothing(memory: str) -> None:
    algorithm, env = learner(memory, unroll=1), recall()
    state = init_train_state(env, algorithm, 0)
    after, batch, _ = collect(env, algorithm, state.learner, state.env_state, state.key)
    ended = np.asarray(batch.terminated[0])
    assert 0 < ended.sum() < N
    (leaf,) = (np.asarray(leaf) for leaf in jax.tree.leaves(after.memory) if leaf.size)
    told = np.any(leaf.reshape(N, -1) != 0.0, axis=1)
    np.testing.assert_array_equal(told, ~ended)


def walking(memory: str, **changes: Any) -> Config:
    config = preset_config("g1_12dof")
    small = replace(config.net, policy=(16,), value=(16,), memory=memory)
    return replace(config, net=small, physics="native", num_envs=4, curriculum=(), **changes)


@pytest.mark.slow
@pytest.mark.parametrize("memory", KINDS)
def test_a_fresh_policy_ignores_its_memory(memory: str) -> None:
    config = walking(memory)
    config = replace(config, ppo=replace(config.ppo, motion_prior=False))
    env = make_env(config)
    algorithm = make_algorithm(config, env)
    learner = init_train_state(env, algorithm, 0).learner
    obs = jax.random.normal(jax.random.key(0), (4, env.obs_size))
    full = jax.tree.map(lambda x: jax.random.normal(jax.random.key(1), x.shape), algorithm.start(4))
    action, _ = algorithm.policy(learner, obs, memory=algorithm.start(4))
    other, _ = algorithm.policy(learner, obs, memory=full)
    assert float(jnp.abs(action).max()) > 0.0
    np.testing.assert_array_equal(action, other)
    np.testing.assert_array_equal(action, algorithm.policy(learner, obs)[0])


@pytest.mark.slow
@pytest.mark.parametrize("memory", KINDS)
def test_a_resumed_run_remembers_to_the_bit(memory: str, train_run: Any, tmp_path: Path) -> None:
    net = replace(preset_config("cartpole").net, policy=(16,), value=(16,), memory=memory, gru=8)
    whole = train_run("cartpole", tmp_path / "whole", iterations=4, net=net)
    train_run("cartpole", tmp_path / "parts", iterations=2, net=net)
    parts = train_run("cartpole", tmp_path / "parts", iterations=4, net=net)
    chex.assert_trees_all_equal(parts.state.params, whole.state.params)
    chex.assert_trees_all_equal(parts.state.env_state.memory, whole.state.env_state.memory)
    loaded = load_run(tmp_path / "whole")
    obs = np.random.default_rng(0).standard_normal((3, 6, 5)).astype(np.float32)
    for one, other in zip(driven(loaded.policy, obs), driven(whole.policy, obs), strict=True):
        np.testing.assert_array_equal(one, other)


def driven(policy: Policy, episodes: np.ndarray) -> list[np.ndarray]:
    memory, actions = policy.start(episodes.shape[1]), []
    for seen in episodes:
        action, memory = policy.step(seen, memory)
        actions.append(np.asarray(action))
    return actions


@pytest.mark.slow
def test_a_saved_run_keeps_its_memory(train_run: Any, tmp_path: Path) -> None:
    train_run("cartpole", tmp_path / "run")
    net = replace(preset_config("cartpole").net, memory="history")
    with pytest.raises(UserError, match=r"net\.memory"):
        train_run("cartpole", tmp_path / "run", iterations=4, net=net)
