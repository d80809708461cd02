"""A policy fitted to a motion makes that motion, and looks past everything else."""

from __future__ import annotations

from dataclasses import replace

import chex
import jax
import jax.numpy as jnp
import pytest

from jaxrl_hw.algos import ppo
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.config.factory import make_algorithm, make_env
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.training.train_step import init_train_state
from jaxrl_hw.types import Algorithm, EnvSpec, Learner

OBS, ACTIONS = 12, 3


def swing(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Actions that follow the clock in the last two entries."""
    key_clock, key_rest = jax.random.split(key)
    angle = 2 * jnp.pi * jax.random.uniform(key_clock)
    clock = jnp.sqrt(2.0) * jnp.stack([jnp.sin(angle), jnp.cos(angle)])
    seen = jax.random.normal(key_rest, (OBS,)).at[-2:].set(clock)
    lifts = jnp.stack([jnp.sin(angle), -jnp.sin(angle), jnp.cos(2 * angle)])
    return seen, 2.0 * jnp.maximum(lifts, 0.0)


def cloned(algorithm: Algorithm, learner: Learner, seed: int) -> Learner:
    return jax.jit(algorithm.clone, static_argnums=1)(learner, swing, jax.random.key(seed))


@pytest.mark.slow
@pytest.mark.parametrize("guided", [True, False])
def test_a_policy_starts_with_the_motion_of_its_prior(guided: bool) -> None:
    net = NetConfig(policy=(64, 32), value=(16,))
    algorithm = ppo.make(PPOConfig(), net, EnvSpec(OBS, OBS, ACTIONS))
    learner = algorithm.init(jax.random.key(0))
    if guided:
        learner = cloned(algorithm, learner, 0)
    seen, wanted = jax.vmap(swing)(jax.random.split(jax.random.key(1), 1000))
    did = algorithm.policy(learner, seen)[0]
    explained = 1.0 - float(((did - wanted) ** 2).mean() / wanted.var())
    assert (explained > 0.9) is guided


@pytest.mark.slow
def test_the_same_seed_gives_the_same_start() -> None:
    algorithm = ppo.make(PPOConfig(), NetConfig((16,), (16,)), EnvSpec(OBS, OBS, ACTIONS))
    fresh = algorithm.init(jax.random.key(3))
    chex.assert_trees_all_equal(*(cloned(algorithm, fresh, 3) for _ in range(2)))


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_a_walking_robot_has_a_prior_and_the_setting_turns_it_off(algo: str) -> None:
    config = replace(preset_config("g1_12dof", algo=algo), physics="native", num_envs=4)
    env = make_env(config)
    standing = jnp.zeros((1, env.obs_size))
    sizes = {}
    for on in (True, False):
        settings = replace(getattr(config, algo), motion_prior=on)
        chosen = replace(config, **{algo: settings})
        algorithm = make_algorithm(chosen, env)
        learner = init_train_state(env, algorithm, seed=0).learner
        # told to go forward, mid-swing of the right foot: its knee is to bend
        obs = standing.at[0, 6].set(1.0).at[0, -2:].set(jnp.array([0.8, 0.6]))
        sizes[on] = float(jnp.abs(algorithm.policy(learner, obs)[0]).max())
    assert sizes[True] > 1.0 > 0.2 > sizes[False]
