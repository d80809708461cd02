"""The cart-pole: what is seen, what is paid, and where it starts."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.config.factory import make_task
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.physics.api import state_at
from jaxrl_hw.envs.tasks.api import Outcome, Task
from jaxrl_hw.envs.tasks.cartpole.settings import CartpoleConfig


@pytest.fixture(scope="module")
def task() -> Task:
    return make_task(Config(robot="cartpole", physics="native"))[0]


def see(task: Task, cart: float, angle: float, speed: float, spin: float, action: float) -> Outcome:
    start = task.reset(task.params, jax.random.key(0))
    qpos, qvel = jnp.array([cart, angle]), jnp.array([speed, spin])
    physics = start.physics._replace(qpos=qpos, qvel=qvel)
    args: Any = start.task, start.params, physics, jnp.zeros(3), jnp.array([action])
    return task.outcome(task.params, *args, jax.random.key(1))


@pytest.mark.slow
def test_it_sees_cart_angle_and_speeds(task: Task) -> None:
    obs = see(task, 0.4, 2.0, -1.0, 3.0, 0.0).obs
    wanted = [0.4, math.cos(2.0), math.sin(2.0), -0.5, 0.6]
    np.testing.assert_allclose(obs.policy, wanted, rtol=1e-6)
    np.testing.assert_array_equal(obs.critic, obs.policy)


def total(out: Outcome) -> float:
    return float(sum(out.rewards.values()))


def test_balancing_in_the_middle_pays_one_and_nothing_pays_more(task: Task) -> None:
    best = total(see(task, 0, 0, 0, 0, 0))
    assert best == pytest.approx(1.0, abs=1e-6)
    rng = np.random.default_rng(0)
    for cart, angle, speed, spin, action in rng.standard_normal((50, 5)) * [1, 2, 2, 5, 1]:
        assert total(see(task, cart, angle, speed, spin, action)) < best


@pytest.mark.parametrize(
    "worse",
    [(1.0, 0, 0, 0, 0), (0, 0.5, 0, 0, 0), (0, 0, 0, 5.0, 0), (0, 0, 0, 0, 1.0)],
    ids=["off the middle", "leaning", "spinning", "pushing"],
)
def test_each_fault_costs(task: Task, worse: tuple[float, ...]) -> None:
    assert total(see(task, *worse)) < total(see(task, 0, 0, 0, 0, 0)) - 0.005


def test_an_effort_beyond_the_motors_range_costs_no_more(task: Task) -> None:
    assert total(see(task, 0, 0, 0, 0, 5.0)) == total(see(task, 0, 0, 0, 0, 1.0))


def test_it_never_terminates_and_says_when_it_is_up(task: Task) -> None:
    for angle in (0.0, 3.0, 40.0):
        assert not bool(see(task, 1.8, angle, 0, 0, 0).terminated)
    assert float(see(task, 0, 0.2, 0, 0, 0).diagnostics["upright_share"]) == 1.0
    assert float(see(task, 0, 0.6, 0, 0, 0).diagnostics["upright_share"]) == 0.0


def test_starts_hang_down_within_their_ranges(task: Task) -> None:
    start = jax.jit(jax.vmap(partial(task.reset, task.params)))(
        jax.random.split(jax.random.key(0), 512)
    )
    qpos = np.asarray(start.physics.qpos)
    assert 0.48 < np.abs(qpos[:, 0]).max() <= 0.5
    assert 0.29 < np.abs(qpos[:, 1] - math.pi).max() <= 0.3 + 1e-6
    np.testing.assert_array_equal(start.physics.qvel, 0)
    factor = np.asarray(start.params["body_mass"])[:, 2] / 0.1
    assert 0.9 - 1e-6 <= factor.min() < 0.91
    assert 1.09 < factor.max() <= 1.1 + 1e-6
    # the sums of what hangs on the world, the cart and the pole, and the rod's inertia follow
    sums = np.asarray(start.params["body_subtreemass"])
    wanted = np.stack([1 + 0.1 * factor, 1 + 0.1 * factor, 0.1 * factor], axis=1)
    np.testing.assert_allclose(sums, wanted, rtol=1e-5)
    inertia = np.asarray(start.params["body_inertia"])[:, 2, 0]
    np.testing.assert_allclose(inertia, 0.00833333 * factor, rtol=1e-5)


def test_without_randomization_every_start_is_the_keyframe() -> None:
    config = Config(robot="cartpole", cartpole=CartpoleConfig(randomize=False), physics="native")
    task, physics = make_task(config)
    for seed in (0, 1):
        start = task.reset(task.params, jax.random.key(seed))
        np.testing.assert_array_equal(start.physics.qpos, state_at(physics.model).qpos)
        np.testing.assert_array_equal(start.params["body_mass"], np.float32([0, 1.0, 0.1]))
