"""The mean of a policy's weights, which is what is evaluated and exported."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl_hw.algos import optimizer, ppo
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.config.factory import make_algorithm, make_env
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.training.init_from import open_source
from jaxrl_hw.training.run import make_policy
from jaxrl_hw.training.train_step import init_train_state
from jaxrl_hw.types import Batch, EnvSpec, Observation


class Weights(NamedTuple):
    policy: Any
    value: Any


def mean_of(path: list[float], part: float) -> float:
    """What is kept of a policy whose only weight takes this path."""
    follow = optimizer.follow(part)
    weights = Weights(jnp.zeros(1), jnp.zeros(1))
    state = follow.init(weights)
    for goal in path:
        change = Weights(goal - weights.policy, jnp.ones(1))
        passed, state = follow.update(change, state, weights)
        np.testing.assert_array_equal(passed.policy, change.policy)
        weights = optax.apply_updates(weights, passed)
    return float(state.policy[0])


def test_the_mean_is_that_of_the_formula() -> None:
    assert mean_of([4.0], 0.5) == 4.0, "what it began with is forgotten at once"
    assert mean_of([4.0, 6.0], 0.5) == 6.0
    assert mean_of([4.0, 6.0, 9.0], 0.5) == pytest.approx(6.0 + 2 / 3 * 3.0)
    assert mean_of([4.0, 6.0, 9.0, 1.0], 0.5) == pytest.approx(8.0 + 2 / 4 * (1.0 - 8.0))


def test_it_smooths_what_wanders_and_follows_what_moves_on() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal(600)
    assert abs(mean_of(list(5.0 + noise), 0.2) - 5.0) < 0.3
    steps = [*(0.0 + noise[:300]), *(5.0 + noise[300:])]
    assert abs(mean_of(steps, 0.1) - 5.0) < 0.5


T, N, OBS = 4, 16, 3
ONE_PASS = PPOConfig(unroll=T, epochs=1, minibatch_size=T * N, symmetry="none")
ONE_PASS = replace(ONE_PASS, learning_rate=0.05, lr_max=0.05, lr_schedule="fixed")


def taught(part: float, updates: int = 3) -> tuple[Any, Any]:
    """An algorithm, and what it has learned from random experience."""
    settings = replace(ONE_PASS, weight_averaging=part)
    algorithm = ppo.make(settings, NetConfig(policy=(8,), value=(8,)), EnvSpec(OBS, OBS, 2))
    learner, update = algorithm.init(jax.random.key(0)), jax.jit(algorithm.update)
    for i in range(updates):
        rng = np.random.default_rng(i)
        obs = [jnp.asarray(rng.standard_normal((T, N, OBS)), jnp.float32) for _ in range(2)]
        seen, came = (Observation(x, x) for x in obs)
        action, extras, _ = algorithm.act(learner, seen, jax.random.key(i))
        reward, never = jnp.asarray(rng.standard_normal((T, N)), jnp.float32), jnp.zeros((T, N)) > 0
        batch = Batch(seen, action, reward, came, never, never, extras)
        learner, _ = update(learner, batch, jax.random.key(i))
    return algorithm, learner


@pytest.mark.slow
def test_experience_is_collected_with_the_weights_as_they_are() -> None:
    obs = jnp.linspace(-1.0, 1.0, 4 * OBS).reshape(4, OBS)
    both = {part: taught(part) for part in (0.0, 0.9)}
    acted, shown = {}, {}
    for part, (algorithm, learner) in both.items():
        _, extras, _ = algorithm.act(learner, Observation(obs, obs), jax.random.key(9))
        acted[part], shown[part] = extras["mean"], algorithm.policy(learner, obs)[0]
    np.testing.assert_array_equal(acted[0.9], acted[0.0])
    np.testing.assert_array_equal(shown[0.0], acted[0.0])
    assert float(jnp.abs(shown[0.9] - acted[0.9]).max()) > 1e-3


@pytest.mark.slow
def test_a_run_continues_exports_and_hands_over_its_mean(train_run: Any, tmp_path: Path) -> None:
    base = preset_config("cartpole").ppo
    changes = {"ppo": replace(base, unroll=8, epochs=2, minibatch_size=128, weight_averaging=0.8)}
    whole = train_run("cartpole", tmp_path / "whole", iterations=4, **changes)
    train_run("cartpole", tmp_path / "parts", **changes)
    parts = train_run("cartpole", tmp_path / "parts", iterations=4, **changes)
    obs = np.random.default_rng(0).standard_normal((50, 5)).astype(np.float32)
    action = np.asarray(whole.policy(obs))
    np.testing.assert_array_equal(parts.policy(obs), action)
    np.testing.assert_allclose(portable(whole.config, whole.state)(obs), action, atol=1e-5)
    last = whole.state.params.policy
    mean = optimizer.averaged(last, whole.state.opt_state)
    off = jax.tree.map(lambda a, b: float(jnp.abs(a - b).max()), mean, last)
    assert max(jax.tree.leaves(off)) > 1e-4, "the mean is not the last"
    source = {"init_from": str(tmp_path / "whole"), "iterations": 1, **changes}
    config = replace(whole.config, run_dir=str(tmp_path / "new"), **source)
    env = make_env(config)
    algorithm = make_algorithm(config, env)
    source = open_source(config, env, algorithm, Console(io.StringIO()))
    state = init_train_state(env, algorithm, config.seed, source)
    np.testing.assert_allclose(make_policy(env, algorithm, state)(obs), action, atol=1e-6)
