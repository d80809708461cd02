"""The train step: pure, compiled once, its keys used once, its state of one fixed form."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.config.factory import make_algorithm, make_env
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env, make_key
from jaxrl_hw.training.train_step import (
    add_steps,
    compile_train_step,
    init_train_state,
    make_train_step,
    state_form,
    total_steps,
    with_fresh_envs,
)
from jaxrl_hw.types import Algorithm, TrainState

pytestmark = pytest.mark.slow

SMALL = Config(
    robot="cartpole",
    physics="native",
    num_envs=8,
    net=NetConfig(policy=(16,), value=(16,)),
    ppo=PPOConfig(unroll=4, epochs=2, minibatch_size=16),
)


class Trainer(NamedTuple):
    env: Env
    algorithm: Algorithm
    step: Any

    first: TrainState

    def fresh(self) -> TrainState:
        """A copy of the first state: a step takes its argument's memory."""
        return jax.tree.map(lambda leaf: leaf.copy(), self.first)


def build(config: Config) -> Trainer:
    env = make_env(config)
    algorithm = make_algorithm(config, env)
    first = init_train_state(env, algorithm, 0)
    return Trainer(env, algorithm, make_train_step(env, algorithm), first)


@pytest.fixture(scope="module")
def small() -> Trainer:
    return build(SMALL)


def plain(tree: Any) -> list[np.ndarray]:
    """All leaves as NumPy arrays, keys as their data."""

    def raw(leaf: Any) -> np.ndarray:
        is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    return [raw(leaf) for leaf in jax.tree.leaves(tree)]


def same_bits(a: Any, b: Any) -> bool:
    pairs = zip(plain(a), plain(b), strict=True)
    return all(np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in pairs)


def test_the_same_state_gives_the_same_result_to_the_bit(small: Trainer) -> None:
    first, second = (small.step(small.fresh()) for _ in range(2))
    assert same_bits(first, second)
    after, _ = small.step(small.fresh()._replace(key=make_key(1)))
    assert not same_bits(first[0].params, after.params)


def test_an_iteration_moves_everything_on(small: Trainer) -> None:
    after, _ = small.step(small.fresh())
    assert int(after.iteration) == 1
    assert total_steps(after.env_steps) == 8 * 4
    for part in ("params", "opt_state", "obs_stats", "env_state", "key"):
        assert not same_bits(getattr(small.first, part), getattr(after, part)), part


def test_the_second_call_compiles_nothing(small: Trainer, caplog: pytest.LogCaptureFixture) -> None:
    def compiled() -> list[str]:
        return [r.getMessage() for r in caplog.records if "Compiling" in r.getMessage()]

    with jax.log_compiles(), caplog.at_level(logging.WARNING):
        jax.jit(lambda x: x * 3.5 - 1.25)(jnp.arange(7.0))
        assert compiled()  # so it would be seen
        state, _ = small.step(small.fresh())
        caplog.clear()
        for _ in range(2):
            state, _ = small.step(state)
        assert compiled() == []


@pytest.mark.slow
def test_no_random_key_is_used_twice() -> None:
    # built anew, so that everything is traced under the watch
    config = replace(SMALL, num_envs=4, ppo=replace(SMALL.ppo, unroll=2))
    with jax.debug_key_reuse(True):
        used = jax.random.key(0)
        jax.random.normal(used)
        with pytest.raises(jax.errors.KeyReuseError):  # so it would be seen
            jax.random.normal(used)
        trainer = build(config)
        state, _ = trainer.step(trainer.fresh())
        state, _ = trainer.step(state)
    assert int(state.iteration) == 2


@pytest.mark.slow
def test_no_random_key_of_a_legged_robot_is_used_twice() -> None:
    with jax.debug_key_reuse(True):
        env = make_env(Config(robot="g1_12dof", physics="native", num_envs=2))
        keys = jax.random.split(jax.random.key(0), 2)
        state = jax.jit(env.reset)(keys[0])
        _, moved = jax.jit(env.step)(state, jnp.zeros((2, 12)), keys[1])
    assert np.isfinite(moved.reward).all()


@pytest.mark.slow
def test_one_jit_around_the_step_gives_what_its_halves_give(small: Trainer) -> None:
    halves, metrics = small.step(small.fresh())
    whole, whole_metrics = jax.jit(small.step)(small.fresh())
    # compiled as one, XLA may fuse, and so round, some products otherwise
    for x, y in zip(plain(halves), plain(whole), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)
    assert set(metrics) == set(whole_metrics)


@pytest.mark.slow
@pytest.mark.parametrize("in_parallel", [True, False])
def test_compiled_ahead_the_step_is_the_same_to_the_bit(small: Trainer, in_parallel: bool) -> None:
    form = state_form(small.env, small.algorithm)
    ahead = compile_train_step(small.env, small.algorithm, form, in_parallel=in_parallel).step
    a, b = small.fresh(), small.fresh()
    for _ in range(2):
        (a, metrics_a), (b, metrics_b) = small.step(a), ahead(b)
    assert same_bits((a, metrics_a), (b, metrics_b))


def test_the_form_of_a_state_is_known_without_making_one(small: Trainer) -> None:
    form = state_form(small.env, small.algorithm)
    made = small.first
    assert jax.tree.structure(form) == jax.tree.structure(made)
    pairs = zip(jax.tree.leaves(form), jax.tree.leaves(made), strict=True)
    assert all(f.shape == m.shape and f.dtype == m.dtype for f, m in pairs)


def test_the_state_keeps_its_types_and_none_is_weak(small: Trainer) -> None:
    before = small.fresh()
    types = [(leaf.dtype, leaf.shape) for leaf in jax.tree.leaves(before)]
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(before) if hasattr(leaf, "weak_type"))
    after, _ = small.step(before)
    assert [(leaf.dtype, leaf.shape) for leaf in jax.tree.leaves(after)] == types
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(after) if hasattr(leaf, "weak_type"))
    names = {str(dtype) for dtype, _ in types}
    assert names <= {"float32", "int32", "uint32", "bool", "key<fry>"}


def test_metrics_are_scalars_with_the_same_names_in_every_iteration(small: Trainer) -> None:
    state, first = small.step(small.fresh())
    _, second = small.step(state)
    assert set(first) == set(second)
    assert {value.shape for value in first.values()} == {()}
    wanted = {"episode_return", "episode_length", "reward/total", "loss/policy", "loss/value"}
    assert wanted | {"entropy", "kl", "lr", "nonfinite_envs"} <= set(first)


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1, 2**31, 2**32 - 1, -1])
def test_a_seeds_key_is_that_of_jax(seed: int) -> None:
    of_jax = jax.random.key(np.array(seed, np.int64).astype(np.int32), impl="threefry2x32")
    assert jax.random.key_data(make_key(seed)).tolist() == jax.random.key_data(of_jax).tolist()


def test_steps_are_counted_exactly_past_what_32_bits_hold() -> None:
    count, wanted = 98_304_001, 0
    steps = jnp.zeros(2, jnp.uint32)
    add = jax.jit(lambda x: add_steps(x, count))
    for _ in range(60):
        steps, wanted = add(steps), wanted + count
        assert total_steps(steps) == wanted
        assert int(steps[1]) < 1_000_000
    assert steps.dtype == jnp.uint32
    assert wanted > 2**32


def test_the_seed_decides_the_networks_and_the_environments(small: Trainer) -> None:
    again, other = (init_train_state(small.env, small.algorithm, seed) for seed in (0, 1))
    assert same_bits(small.first, again)
    assert not same_bits(small.first.params, other.params)
    poses = [state.env_state.envs.physics.qpos for state in (small.first, other)]
    assert not same_bits(*poses)


@pytest.mark.slow
def test_reset_environments_depend_on_seed_and_iteration_and_nothing_else_changes(
    small: Trainer,
) -> None:
    def reset(seed: int, iteration: int) -> TrainState:
        state = small.fresh()._replace(iteration=jnp.int32(iteration), env_state=None)
        return with_fresh_envs(state, small.env, small.algorithm, seed)

    states = [reset(*at) for at in ((0, 5), (5, 0), (0, 6))]
    poses = [state.env_state.envs.physics.qpos for state in states]
    assert not any(same_bits(a, b) for a, b in itertools.combinations(poses, 2))
    assert same_bits(states[0], reset(0, 5))
    for name in ("params", "opt_state", "obs_stats", "key", "env_steps"):
        assert same_bits(getattr(states[0], name), getattr(small.first, name)), name


def test_reset_environments_do_not_run_the_learners_init(small: Trainer) -> None:
    """They take what a policy remembers at an episode's start of the algorithm, no more."""
    state, algorithm = small.fresh()._replace(env_state=None), small.algorithm._replace(init=None)
    fresh = with_fresh_envs(state, small.env, algorithm, 0)
    form = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), fresh)
    assert form == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), small.first)


@pytest.mark.slow
def test_the_task_parameters_are_those_of_the_runs_env_steps(small: Trainer) -> None:
    def step(state: Any, action: Any, key: Any, task_params: Any = None) -> Any:
        after, moved = small.env.step(state, action, key)
        return after, moved._replace(reward=jnp.full(8, task_params))

    env = small.env._replace(step=step, params_at=lambda env_steps: env_steps[1] / 1.0)
    train_step = make_train_step(env, small.algorithm)
    state = small.fresh()._replace(env_steps=jnp.array([3, 41], jnp.uint32))
    state, seen = train_step(state)
    _, then = train_step(state)
    assert (float(seen["reward/total"]), float(then["reward/total"])) == (41.0, 41.0 + 8 * 4)
