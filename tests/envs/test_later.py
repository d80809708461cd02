"""What the joystick task asks for from some iteration of a run on."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.config import Config, JoystickConfig, JoystickLater
from jaxrl_hw.factory import make_env

pytestmark = pytest.mark.usefixtures("quick_compile")

N, TURN = 32, 5
KEY = jax.random.key(3)
ASKED = JoystickLater(TURN, 1.0, 0.4, yaw_rate=4.5, walking_power=-0.01, landing=-4.0, fall=-9.0)
FIRST = JoystickConfig(
    noise=0.0, push_speed=0.0, resample_s=(0.02, 0.02), zero_command=0.0, later=ASKED
)


class Robots:
    """Environments that have just begun, and one step of theirs in an iteration of a run."""

    def __init__(self) -> None:
        env = make_env(Config(robot="g1_12dof", physics="native", num_envs=N, joystick=FIRST))
        self.start = jax.jit(env.reset)(KEY)
        assert env.at is not None
        self.stepped = jax.jit(lambda i, *args: env.at(i).step(*args))

    def step(self, iteration: int, state: Any = None) -> Any:
        action = 0.5 * jax.random.normal(KEY, (N, 12))
        state = self.start if state is None else state
        return self.stepped(jnp.int32(iteration), state, action, KEY)


@pytest.fixture(scope="module")
def robots() -> Robots:
    return Robots()


def test_rewards_weigh_as_asked_from_that_iteration_on(robots: Robots) -> None:
    _, before = robots.step(TURN - 1)
    _, after = robots.step(TURN)
    np.testing.assert_array_equal(before.diagnostics["power"], after.diagnostics["power"])
    assert not np.any(before.rewards["walking_power"])
    walks = np.linalg.norm(robots.start.task.command, axis=-1) > 0.0
    paid = ASKED.walking_power * 0.02 * after.diagnostics["power"] * walks
    np.testing.assert_allclose(after.rewards["walking_power"], paid, rtol=1e-5)
    threefold = 3.0 * before.rewards["yaw_rate"]
    np.testing.assert_allclose(after.rewards["yaw_rate"], threefold, rtol=1e-5)
    assert not np.any(before.rewards["landing"])
    assert np.any(after.rewards["landing"] < 0.0)


def test_a_fall_costs_as_asked_from_that_iteration_on(robots: Robots) -> None:
    physics = robots.start.physics
    fallen = physics._replace(qpos=physics.qpos.at[:, 2].set(0.3))
    start = robots.start._replace(physics=fallen)
    for iteration, cost in ((TURN - 1, FIRST.reward.fall), (TURN, ASKED.fall)):
        np.testing.assert_allclose(robots.step(iteration, start)[1].rewards["fall"], cost)


def test_commands_are_drawn_as_asked_from_that_iteration_on(robots: Robots) -> None:
    before, _ = robots.step(TURN - 1)
    after, _ = robots.step(TURN)
    told = np.linalg.norm(before.task.command, axis=-1)
    assert (told > 0.0).mean() > 0.9, "none is told to stand but for too slow a command"
    np.testing.assert_array_equal(after.task.command, 0.0)


def test_a_robot_set_off_is_paid_for_stepping_from_then_on(robots: Robots) -> None:
    """Told to stand, at 0.8 m/s: its joints are off home, which costs who is to stand."""
    told = robots.start.task._replace(command=jnp.zeros((N, 3)))
    still = robots.start._replace(task=told)
    qvel = still.physics.qvel.at[:, 0].set(0.8)
    moving = still._replace(physics=still.physics._replace(qvel=qvel))
    _, before = robots.step(TURN - 1, moving)
    _, after = robots.step(TURN, moving)
    assert np.all(before.rewards["stand_still"] < 0.0)
    np.testing.assert_array_equal(after.rewards["stand_still"], 0.0)
    at_rest = robots.step(TURN, still)[1].rewards["stand_still"]
    assert np.any(at_rest < 0.0), "nothing has set these off"
