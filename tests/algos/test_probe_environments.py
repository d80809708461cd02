"""Environments that each need one ability of the learner, and nothing else (after rejax).

They are `rollout.Env` values in pure JAX, without physics, trained with the production train step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from jaxrl_hw.algos import a2c, dqn, ppo, sac
from jaxrl_hw.algos.a2c_settings import A2CConfig
from jaxrl_hw.algos.dqn_settings import DQNConfig
from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.policy_net import make_policy_net
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.algos.sac_settings import SACConfig
from jaxrl_hw.envs.episode import Transition
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.training.train_step import init_train_state, make_train_step
from jaxrl_hw.types import Algorithm, EnvSpec, Observation, TrainState

N = 64
NET = NetConfig(policy=(16,), value=(16,), activation="tanh", init_std=0.5)
SETTINGS = {
    "unroll": 8,
    "epochs": 4,
    "minibatch_size": 8 * N // 4,
    "gamma": 0.8,
    "learning_rate": 3e-3,
    "lr_schedule": "fixed",
    "entropy_coef": 0.0,
    "symmetry": "none",
}


class Probe(NamedTuple):
    """All environments of a probe: what they show, and how long their episodes have lasted."""

    obs: Observation  # [N, 1]
    steps: Array  # int32 [N]


class Step(NamedTuple):
    """What one step of a probe gives, every field [N]."""

    seen: Array  # the next observation
    reward: Array
    terminated: Array
    truncated: Array


def probe(first: Callable[[Array], Array], move: Callable[[Array, Array, Array], Step]) -> Env:
    """An Env of one observation and one action.

    first(key) -> [N]: observations at the start of an episode.
    move(seen [N], steps [N] done before, action [N]) -> Step.
    """

    def show(seen: Array) -> Observation:
        return Observation(seen[:, None], seen[:, None])

    def reset(key: Array, task_params: Any = None) -> Probe:
        return Probe(show(first(key)), jnp.zeros(N, jnp.int32))

    def step(
        state: Probe, action: Array, key: Array, task_params: Any = None
    ) -> tuple[Probe, Transition]:
        out = move(state.obs.policy[:, 0], state.steps, action[:, 0])
        done = out.terminated | out.truncated
        after = Probe(
            show(jnp.where(done, first(key), out.seen)), jnp.where(done, 0, state.steps + 1)
        )
        nothing = jnp.zeros(N)
        return after, Transition(
            out.reward,
            show(out.seen),
            out.terminated,
            out.truncated,
            jnp.zeros(N, bool),
            nothing,
            nothing,
            {},
            {},
            {},
        )

    return Env("probe", "none", N, 1, 1, 1, 1.0, None, reset, step)


def zeros(key: Array) -> Array:
    return jnp.zeros(N)


def signs(key: Array) -> Array:
    return jnp.where(jax.random.bernoulli(key, 0.5, (N,)), 1.0, -1.0)


ALWAYS, NEVER = jnp.ones(N, bool), jnp.zeros(N, bool)


@functools.cache
def learner(gae_lambda: float = 0.95) -> Algorithm:
    """One and the same object, so that its update is compiled once for all probes."""
    return ppo.make(PPOConfig(**SETTINGS, gae_lambda=gae_lambda), NET, EnvSpec(1, 1, 1))


def train(env: Env, iterations: int, algorithm: Algorithm | None = None) -> TrainState:
    algorithm = algorithm or learner()
    step, state = make_train_step(env, algorithm), init_train_state(env, algorithm, 0)
    for _ in range(iterations):
        state, _ = step(state)
    return state


def values(state: TrainState, *seen: float) -> np.ndarray:
    """What the trained value network says of observations."""
    net = MLP(NET.value, 1, NET.activation)
    obs = normalize.normalize(state.obs_stats.critic, jnp.asarray(seen)[:, None])
    return np.asarray(net.apply(state.params.value, obs))[:, 0]


def means(state: TrainState, *seen: float) -> np.ndarray:
    """What the trained policy does at observations, without noise."""
    return np.asarray(learner().policy(state.learner, jnp.asarray(seen)[:, None])[0])[:, 0]


@pytest.mark.slow
def test_a_constant_reward_is_the_value_of_a_one_step_episode() -> None:
    env = probe(zeros, lambda seen, steps, action: Step(seen, jnp.ones(N), ALWAYS, NEVER))
    np.testing.assert_allclose(values(train(env, 30), 0.0), [1.0], atol=0.05)


@pytest.mark.slow
def test_the_value_depends_on_what_is_seen() -> None:
    env = probe(signs, lambda seen, steps, action: Step(seen, 2.0 * seen, ALWAYS, NEVER))
    np.testing.assert_allclose(values(train(env, 40), -1.0, 1.0), [-2.0, 2.0], atol=0.1)


@pytest.mark.slow
def test_a_reward_that_comes_a_step_later_is_discounted_once() -> None:
    def move(seen: Array, steps: Array, action: Array) -> Step:
        return Step(jnp.ones(N), (steps == 1).astype(jnp.float32), steps == 1, NEVER)

    # first 0 is seen and nothing is paid, then 1 is seen and 1 is paid: gamma and 1
    np.testing.assert_allclose(values(train(probe(zeros, move), 40), 0.0, 1.0), [0.8, 1], atol=0.05)


@pytest.mark.slow
def test_the_policy_finds_the_action_that_pays() -> None:
    env = probe(
        zeros, lambda seen, steps, action: Step(seen, -((action - 0.7) ** 2), ALWAYS, NEVER)
    )
    np.testing.assert_allclose(means(train(env, 60), 0.0), [0.7], atol=0.1)


@pytest.mark.slow
def test_the_policy_acts_on_what_it_sees() -> None:
    env = probe(
        signs, lambda seen, steps, action: Step(seen, -((action - 0.7 * seen) ** 2), ALWAYS, NEVER)
    )
    np.testing.assert_allclose(means(train(env, 60), -1.0, 1.0), [-0.7, 0.7], atol=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["truncated", "terminated"])
def test_a_time_limit_keeps_the_future_and_a_termination_does_not(ending: str) -> None:
    def move(seen: Array, steps: Array, action: Array) -> Step:
        last = steps == 3
        ends = (NEVER, last) if ending == "truncated" else (last, NEVER)
        return Step(seen, jnp.ones(N), *ends)

    got = values(train(probe(zeros, move), 80, learner(1.0)), 0.0)
    if ending == "truncated":
        # a reward of 1 for ever: 1 / (1 - gamma) = 5, though every episode lasts four steps
        np.testing.assert_allclose(got, [5.0], atol=0.4)
    else:
        # four, three, two or one reward left, seen alike:
        # (1 + 1.8 + 2.44 + 2.952) / 4 = 2.05
        np.testing.assert_allclose(got, [2.05], atol=0.15)


REPLAY = {
    "buffer_size": 8192,
    "batch_size": 128,
    "train_freq": 8,
    "gradient_steps": 16,
    "learning_starts": 512,
    "gamma": 0.8,
    "tau": 0.1,
    "learning_rate": 3e-3,
}
ACTIONS = np.array([[-0.7], [0.0], [0.7]], np.float32)
OTHERS: dict[str, Callable[[], Algorithm]] = {
    "a2c": lambda: a2c.make(
        A2CConfig(n_steps=8, gamma=0.8, learning_rate=1e-2), NET, EnvSpec(1, 1, 1)
    ),
    "sac": lambda: sac.make(
        SACConfig(**REPLAY, target_entropy=-2.0, alpha_learning_rate=1e-2),
        NET,
        EnvSpec(1, 1, 1),
    ),
    "dqn": lambda: dqn.make(
        DQNConfig(**REPLAY, widths=(16,), epsilon_steps=4000, epsilon_end=0.2),
        NET,
        EnvSpec(1, 1, 1, action_set=ACTIONS),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "iterations"), [("a2c", 250), ("sac", 200), ("dqn", 20)])
def test_other_policies_act_on_what_they_see(name: str, iterations: int) -> None:
    env = probe(
        signs, lambda seen, steps, action: Step(seen, -((action - 0.7 * seen) ** 2), ALWAYS, NEVER)
    )
    algorithm = OTHERS[name]()
    state = train(env, iterations, algorithm)
    acts, _ = algorithm.policy(state.learner, jnp.array([[-1.0], [1.0]]))
    np.testing.assert_allclose(acts[:, 0], [-0.7, 0.7], atol=0.0 if name == "dqn" else 0.15)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["truncated", "terminated"])
def test_a_replay_keeps_the_future_of_a_time_limit(ending: str) -> None:
    def move(seen: Array, steps: Array, action: Array) -> Step:
        last = steps == 3
        ends = (NEVER, last) if ending == "truncated" else (last, NEVER)
        return Step(seen, jnp.ones(N), *ends)

    algorithm = OTHERS["dqn"]()
    parts = algorithm.parts(train(probe(zeros, move), 60, algorithm).learner)
    net = make_policy_net(NET, 1, 3, None, "float32")
    best = np.asarray(
        net.forward(parts.weights, net.prepared(parts.stats, jnp.zeros((1, 1))))[0]
    ).max()
    # truncated: 1 / (1 - gamma). Terminated: a quarter of the targets are 1, the others 1 + 0.8 Q.
    # Huber's loss pulls by 1 towards the first, by their distance to the others:
    # 1 / 4 = 3 / 4 (1 + 0.8 Q - Q)
    np.testing.assert_allclose(best, 5.0 if ending == "truncated" else 10 / 3, atol=0.4)
