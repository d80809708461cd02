"""What the joystick task asks for from some iteration of a run on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.config import Config, JoystickConfig, JoystickLater
from jaxrl_hw.factory import make_env
from jaxrl_hw.rollout import Env, collect, init_rollout
from jaxrl_hw.types import Algorithm, Learner

pytestmark = pytest.mark.usefixtures("quick_compile")

N, TURN = 64, 5
KEY = jax.random.key(3)
FIRST = JoystickConfig(noise=0.0, push_speed=0.0, resample_s=(0.02, 0.02), zero_command=0.0)
ASKED = JoystickLater(
    iteration=TURN, zero_command=1.0, recovery_speed=0.4, power=-0.01, landing=-4.0
)


def robots(joystick: JoystickConfig) -> Env:
    return make_env(Config(robot="g1_12dof", physics="native", num_envs=N, joystick=joystick))


@pytest.fixture(scope="module")
def run() -> Any:
    """One iteration of a run that asks for more later: (state, iteration) -> what collect gives."""
    return gather(replace(FIRST, later=ASKED))


def gather(joystick: JoystickConfig) -> Any:
    env = robots(joystick)

    def act(_: Learner, obs: Any, key: Any) -> Any:
        return 0.5 * jax.random.normal(key, (N, 12)), {}

    still = Algorithm("still", 2, None, act, None, None)
    start = jax.jit(lambda: init_rollout(env, KEY))()
    one = jax.jit(lambda i: collect(env, still, Learner(None, None, None), start, KEY, i))
    return lambda i: one(jnp.int32(i))


def test_what_is_asked_later_counts_from_its_iteration_on(run: Any) -> None:
    before, _, seen = run(TURN - 1)
    after, _, then = run(TURN)
    moving = np.linalg.norm(before.envs.task.command, axis=-1)
    assert (moving > 0.0).mean() > 0.9, "none is told to stand but for too slow a command"
    np.testing.assert_array_equal(after.envs.task.command, 0.0)
    assert float(then["power"]) == pytest.approx(float(seen["power"]))
    dearer = ASKED.power / FIRST.reward.power
    assert float(seen["reward/landing"]) == 0.0 > float(then["reward/landing"])
    assert float(then["reward/power"]) == pytest.approx(dearer * float(seen["reward/power"]))


def test_until_then_all_is_as_without(run: Any) -> None:
    plain, mine = gather(FIRST)(TURN + 3)[:2], run(0)[:2]
    for one, other in zip(jax.tree.leaves(mine), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_a_robot_set_off_is_paid_for_stepping_from_then_on() -> None:
    """Told to stand, at 0.5 m/s, with a joint off home, which costs who is to stand."""
    told = replace(FIRST, zero_command=1.0, randomize=False, start_velocity=0.0)
    env = robots(replace(told, later=replace(ASKED, iteration=TURN)))
    state = jax.jit(env.reset)(KEY)
    physics = state.physics._replace(
        qpos=state.physics.qpos.at[:, 7].add(0.2), qvel=state.physics.qvel.at[:, 0].set(0.8)
    )
    step = jax.jit(env.step)
    moving, still = state._replace(physics=physics), state
    hold = jnp.zeros((N, 12))

    def cost(envs: Any, iteration: int) -> float:
        _, moved = step(envs, hold, KEY, jnp.int32(iteration))
        return float(moved.rewards["stand_still"].min())

    assert cost(moving, TURN - 1) < -1e-4
    assert cost(moving, TURN) == 0.0
    assert cost(still, TURN) < 0.0, "nothing has set it off"
