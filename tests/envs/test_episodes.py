"""Episodes end, start afresh, and their neighbours notice nothing of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.config.factory import make_env, make_task
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.tasks.cartpole.settings import CartpoleConfig
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.envs.vector import Env, VectorStep, make_vector_env
from jaxrl_hw.training.rollout import collect, init_rollout
from jaxrl_hw.types import Algorithm, Learner, Needs, Observation

N = 4
KEY = jax.random.key(11)


def cartpole(episode_s: float) -> Env:
    config = Config(robot="cartpole", physics="native", num_envs=N)
    return make_env(replace(config, cartpole=CartpoleConfig(episode_s=episode_s)))


def jitted(env: Env) -> Env:
    return env._replace(reset=jax.jit(env.reset), step=jax.jit(env.step))


@pytest.fixture(scope="module")
def short() -> Env:
    """Cart-poles of five control steps an episode."""
    return jitted(cartpole(0.1))


@pytest.fixture(scope="module")
def long() -> Env:
    """The same ones, of 500 steps."""
    return jitted(cartpole(10.0))


@pytest.fixture(scope="module")
def legs() -> Env:
    """G1's legs, which can fall."""
    config = Config(robot="g1_12dof", physics="native", num_envs=N, joystick=JoystickConfig())
    return jitted(make_env(config))


def start(env: Env, steps: int = 0) -> Any:
    """Fresh environments with all clocks at `steps`."""
    return env.reset(KEY)._replace(steps=jnp.full(N, steps, jnp.int32))


def row(tree: Any, i: int) -> list[np.ndarray]:
    return [np.asarray(leaf)[i] for leaf in jax.tree.leaves(tree)]


def same_bits(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return all(np.array_equal(x, y, equal_nan=True) for x, y in zip(a, b, strict=True))


PUSH = jnp.full((N, 1), 0.7)


@pytest.mark.slow
def test_a_time_limit_truncates_and_shows_the_true_final_observation(short: Env, long: Env) -> None:
    ended, cut = short.step(start(short, 4), PUSH, KEY)  # the fifth step of five
    going, on = long.step(start(long, 4), PUSH, KEY)
    np.testing.assert_array_equal(cut.truncated, True)
    np.testing.assert_array_equal(cut.terminated, False)
    np.testing.assert_array_equal(on.truncated, False)
    # what followed the action is the same whether the clock ran out or not, ...
    assert same_bits(jax.tree.leaves(cut.next_obs), jax.tree.leaves(on.next_obs))
    np.testing.assert_array_equal(cut.reward, on.reward)
    # ... and where the clock did not run out it is what the next action answers to
    assert same_bits(jax.tree.leaves(on.next_obs), jax.tree.leaves(going.obs))
    assert np.all(np.abs(ended.obs.policy - cut.next_obs.policy).max(axis=1) > 1e-3)


def test_every_reset_is_freshly_random(short: Env) -> None:
    state, seen = start(short, 4), []
    for i in range(6):
        state, moved = short.step(state._replace(steps=jnp.full(N, 4)), PUSH, jax.random.key(i))
        assert moved.truncated.all()
        seen.append(np.asarray(state.physics.qpos))
        np.testing.assert_array_equal(state.steps, 0)
        np.testing.assert_array_equal(state.length, 0)
        np.testing.assert_array_equal(state.ret, 0)
        np.testing.assert_array_equal(state.physics.time, 0)
    poses = np.concatenate(seen)
    assert len(np.unique(poses, axis=0)) == 6 * N
    masses = np.asarray(state.params["body_mass"])
    assert len(np.unique(masses, axis=0)) == N


def test_an_end_leaves_the_neighbours_untouched_to_the_bit(short: Env) -> None:
    mixed = start(short)._replace(steps=jnp.array([0, 4, 0, 0]))
    one, moved = short.step(mixed, PUSH, KEY)
    none, unmoved = short.step(start(short), PUSH, KEY)
    np.testing.assert_array_equal(moved.truncated, [False, True, False, False])
    assert not np.any(unmoved.truncated)
    for i in (0, 2, 3):
        assert same_bits(row((one, moved), i), row((none, unmoved), i))
    assert not same_bits(row(one, 1), row(none, 1))


def fallen(state: Any, i: int) -> Any:
    low = state.physics.qpos.at[i, 2].set(0.3)
    return state._replace(physics=state.physics._replace(qpos=low))


@pytest.mark.slow
def test_a_fall_terminates_one_robot_and_leaves_the_others_alone(legs: Env) -> None:
    upright, action = start(legs), jnp.zeros((N, 12))
    one, moved = legs.step(fallen(upright, 2), action, KEY)
    none, unmoved = legs.step(upright, action, KEY)
    np.testing.assert_array_equal(moved.terminated, [False, False, True, False])
    assert not np.any(moved.truncated | moved.nonfinite | unmoved.terminated)
    for i in (0, 1, 3):
        assert same_bits(row((one, moved), i), row((none, unmoved), i))
    assert float(one.physics.qpos[2, 2]) > 0.75  # up again
    assert float(moved.next_obs.critic[2, 50]) < -1.0  # 5 x (0.3 - 0.78) m: seen before the reset
    assert float(one.obs.critic[2, 50]) > -0.1


@pytest.mark.slow
def test_a_fall_in_the_last_step_is_a_termination_and_not_a_truncation(legs: Env) -> None:
    state = fallen(start(legs, 999), 1)  # 20 s are 1,000 steps
    _, moved = legs.step(state, jnp.zeros((N, 12)), KEY)
    np.testing.assert_array_equal(moved.terminated, [False, True, False, False])
    np.testing.assert_array_equal(moved.truncated, [True, False, True, True])


def test_diverged_physics_is_counted_reset_and_kept_from_the_others(legs: Env) -> None:
    healthy, action = start(legs), jnp.zeros((N, 12))
    qvel = healthy.physics.qvel.at[3, 7].set(jnp.nan)
    sick = healthy._replace(physics=healthy.physics._replace(qvel=qvel))
    after, moved = legs.step(sick, action, KEY)
    plain, unmoved = legs.step(healthy, action, KEY)
    np.testing.assert_array_equal(moved.nonfinite, [False, False, False, True])
    np.testing.assert_array_equal(moved.terminated, moved.nonfinite)
    assert float(moved.reward[3]) == 0.0
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((after, moved)))
    assert float(after.physics.qpos[3, 2]) > 0.75
    for i in (0, 1, 2):
        assert same_bits(row((after, moved), i), row((plain, unmoved), i))


def test_clocks_start_staggered_and_returns_at_zero(long: Env) -> None:
    many = jitted(make_env(Config(robot="cartpole", physics="native", num_envs=256)))
    state = many.reset(KEY)
    steps = np.asarray(state.steps)
    assert steps.min() < 25
    assert 475 <= steps.max() < 500
    assert len(np.unique(steps)) > 150
    assert len(np.unique(np.asarray(state.physics.qpos), axis=0)) == 256
    np.testing.assert_array_equal(state.length, 0)
    np.testing.assert_array_equal(state.ret, 0)


def still(unroll: int) -> Algorithm:
    """Pushes the cart by a little, always."""

    def act(
        learner: Learner, obs: Observation, key: jax.Array, phase_mask: Any, memory: Any
    ) -> Any:
        return jnp.full((N, 1), 0.3), {"mark": obs.policy[:, 0]}, memory

    return Algorithm("still", Needs(unroll, 1, 1), None, act, None, None)


NOBODY = Learner(None, None, None)


def gather(env: Env, unroll: int) -> Any:
    algorithm = still(unroll)
    return jax.jit(lambda state, key: collect(env, algorithm, NOBODY, state, key))


@pytest.mark.slow
def test_a_batch_is_time_first_and_each_step_follows_the_one_before(long: Env) -> None:
    rollout = init_rollout(long, still(1), KEY)
    rollout = rollout._replace(envs=start(long))
    after, batch, _ = gather(long, 6)(rollout, KEY)
    chex.assert_shape([batch.obs.policy, batch.next_obs.policy], (6, N, 5))
    chex.assert_shape(batch.action, (6, N, 1))
    chex.assert_shape([batch.reward, batch.terminated, batch.truncated], (6, N))
    np.testing.assert_array_equal(batch.obs.policy[0], rollout.envs.obs.policy)
    np.testing.assert_array_equal(batch.obs.policy[1:], batch.next_obs.policy[:-1])
    np.testing.assert_array_equal(after.envs.obs.policy, batch.next_obs.policy[-1])
    np.testing.assert_array_equal(batch.extras["mark"], batch.obs.policy[:, :, 0])
    np.testing.assert_array_equal(after.envs.steps, 6)


@pytest.mark.slow
def test_episode_means_are_those_of_the_episodes_that_ended(short: Env) -> None:
    rollout = init_rollout(short, still(1), KEY)
    assert np.isnan(rollout.episode_return)
    clocks = jnp.array([0, 1, 4, 3], jnp.int32)
    rollout = rollout._replace(envs=rollout.envs._replace(steps=clocks))
    step = gather(short, 3)
    # Clocks 3, 4 | 5 ends after one step | 5 ends after two steps
    after, batch, metrics = step(rollout, jax.random.key(1))
    reward = np.asarray(batch.reward, np.float64)
    returns = [reward[:1, 2].sum(), reward[:2, 3].sum()]
    assert float(metrics["episode_return"]) == pytest.approx(np.mean(returns), rel=1e-5)
    assert float(metrics["episode_length"]) == pytest.approx(1.5)
    assert int(metrics["episodes_ended"]) == 2
    assert float(metrics["reward/total"]) == pytest.approx(reward.mean(), rel=1e-5)
    # The first two episodes go over from one iteration to the next.
    later, batch, metrics = step(after, jax.random.key(2))
    more = np.asarray(batch.reward, np.float64)
    # environment 0 ends in the second step, 1 in the first; 2 has clock 2 and ends in the third
    np.testing.assert_array_equal(
        batch.truncated, [[False, True, False, False], [True, False, False, False], [0, 0, 1, 0]]
    )
    returns = [
        reward[:, 0].sum() + more[:2, 0].sum(),
        reward[:, 1].sum() + more[:1, 1].sum(),
        reward[1:, 2].sum() + more[:, 2].sum(),
    ]
    assert float(metrics["episode_return"]) == pytest.approx(np.mean(returns), rel=1e-5)
    assert float(metrics["episode_length"]) == pytest.approx((5 + 4 + 5) / 3)
    assert float(later.episode_return) == float(metrics["episode_return"])


@pytest.mark.slow
def test_means_are_not_a_number_before_the_first_end_and_kept_where_none_ended(long: Env) -> None:
    rollout, step = init_rollout(long, still(1), KEY), gather(long, 6)

    def clocks(state: Any, steps: int) -> Any:
        return state._replace(envs=state.envs._replace(steps=jnp.full(N, steps, jnp.int32)))

    rollout, _, metrics = step(clocks(rollout, 0), jax.random.key(1))
    assert np.isnan(metrics["episode_return"])
    assert np.isnan(metrics["episode_length"])
    assert int(metrics["episodes_ended"]) == 0
    rollout, _, ended = step(clocks(rollout, 498), jax.random.key(2))
    assert int(ended["episodes_ended"]) == N
    assert float(ended["episode_length"]) == 8.0
    _, _, kept = step(clocks(rollout, 0), jax.random.key(3))
    assert int(kept["episodes_ended"]) == 0
    assert float(kept["episode_return"]) == float(ended["episode_return"])
    assert float(kept["episode_length"]) == 8.0


@pytest.mark.slow
def test_reward_terms_are_reported_and_add_up(long: Env) -> None:
    _, batch, metrics = gather(long, 6)(init_rollout(long, still(1), KEY), KEY)
    terms = [v for k, v in metrics.items() if k.startswith("reward/") and k != "reward/total"]
    assert len(terms) >= 4
    assert float(sum(terms)) == pytest.approx(float(metrics["reward/total"]), abs=1e-6)
    assert float(metrics["reward/total"]) == pytest.approx(float(batch.reward.mean()), abs=1e-6)


@pytest.mark.slow
def test_diverged_environments_are_counted_in_the_metrics(long: Env) -> None:
    rollout = init_rollout(long, still(1), KEY)
    qpos = rollout.envs.physics.qpos.at[1:3, 0].set(jnp.nan)
    envs = rollout.envs._replace(physics=rollout.envs.physics._replace(qpos=qpos))
    after, batch, metrics = gather(long, 6)(rollout._replace(envs=envs), KEY)
    assert int(metrics["nonfinite_envs"]) == 2  # once each: they were reset
    np.testing.assert_array_equal(batch.terminated[0], [False, True, True, False])
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((after.envs, batch)))


@pytest.mark.slow
def test_an_episode_that_ends_is_followed_by_the_one_that_was_drawn(short: Env) -> None:
    step = cartpole(0.1).step
    assert isinstance(step, VectorStep)
    drawn = step.fresh(jax.random.key(3), N)
    after, moved = jax.jit(step)(start(short, 4), PUSH, KEY, None, drawn)
    np.testing.assert_array_equal(moved.truncated, True)
    assert same_bits(jax.tree.leaves(after), jax.tree.leaves(drawn))
    assert not same_bits(row(drawn, 0), row(drawn, 1)), "each environment has its own"


def drawn_in(jaxpr: Any) -> list[tuple[int, ...]]:
    """The shapes of all blocks of random bits that a computation draws."""
    found = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "random_bits":
            found.append(equation.outvars[0].aval.shape)
        for inner in jax.core.jaxprs_in_params(equation.params):
            found += drawn_in(inner)
    return found


def test_a_control_step_draws_its_random_numbers_in_one_block(legs: Env) -> None:
    envs, action = jax.eval_shape(legs.reset, KEY), jnp.zeros((N, legs.action_size))
    step = legs.step
    drawn = drawn_in(jax.make_jaxpr(step)(envs, action, KEY, None, envs).jaxpr)
    assert len(drawn) == 1
    assert drawn[0][0] == N
    reset = drawn_in(jax.make_jaxpr(lambda key: legs.reset(key))(KEY).jaxpr)
    assert len(reset) == 1


@pytest.mark.slow
def test_a_task_that_takes_keys_gets_one_for_each_environment() -> None:
    """As tasks of other packages and of users do."""
    task, physics = make_task(Config(robot="cartpole", physics="native", num_envs=N))
    by_key = make_vector_env(task._replace(numbers=(0, 0)), physics, N)
    starts = by_key.reset(KEY).physics.qpos
    assert len(np.unique(np.asarray(starts), axis=0)) == N
    for i, key in enumerate(jax.random.split(jax.random.split(KEY)[0], N)):
        np.testing.assert_array_equal(starts[i], task.reset(task.params, key).physics.qpos)
