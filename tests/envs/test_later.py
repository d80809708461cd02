"""What the joystick task asks for from some iteration of a run on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.config.factory import make_env
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.tasks.joystick.settings import (
    JoystickConfig,
    JoystickFinish,
    JoystickLast,
    JoystickLater,
    JoystickReward,
)

pytestmark = pytest.mark.usefixtures("quick_compile")

N, TURN, END, FINISH = 32, 5, 9, 12
KEY = jax.random.key(3)
ASKED = JoystickLater(TURN, 1.0, 0.4, yaw_rate=4.5, walking_power=-0.01, landing=-4.0, fall=-9.0)
AT_LAST = JoystickLast(END, 0.0, 2.0, 1.5, fall=-20.0, standing_phase_speed=0.5, velocity_fine=3.0)
TO_FINISH = JoystickFinish(
    FINISH,
    fall=-30.0,
    standing_phase_speed=0.5,
    push_interval_s=0.2,
    walking_power=-0.004,
    velocity_fine=6.0,
    foot_height=0.5,
)
FIRST = JoystickConfig(
    noise=0.0,
    push_speed=0.0,
    resample_s=(0.02, 0.02),
    zero_command=0.0,
    standing_phase=0.25,
    reward=JoystickReward(velocity_fine=1.5),
    later=ASKED,
    last=AT_LAST,
    finish=TO_FINISH,
)


class Robots:
    """Environments that have just begun, and one step of theirs in an iteration of a run."""

    def __init__(self) -> None:
        env = make_env(Config(robot="g1_12dof", physics="native", num_envs=N, joystick=FIRST))
        self.start = jax.jit(env.reset)(KEY)
        assert env.at is not None
        self.stepped = jax.jit(lambda i, *args: env.at(i).step(*args))
        self.env = env

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
    costs = {TURN - 1: FIRST.reward.fall, TURN: ASKED.fall, END - 1: ASKED.fall, END: AT_LAST.fall}
    costs |= {FINISH - 1: AT_LAST.fall, FINISH: TO_FINISH.fall}
    for iteration, cost in costs.items():
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


def test_what_is_asked_at_last_comes_on_top(robots: Robots) -> None:
    _, first = robots.step(TURN - 1)
    _, before = robots.step(END - 1)
    state, after = robots.step(END)
    np.testing.assert_allclose(
        before.rewards["velocity_fine"], first.rewards["velocity_fine"], rtol=1e-6
    )
    twofold = 2.0 * before.rewards["velocity_fine"]
    np.testing.assert_allclose(after.rewards["velocity_fine"], twofold, rtol=1e-5)
    np.testing.assert_allclose(after.rewards["yaw_rate"], first.rewards["yaw_rate"], rtol=1e-5)
    assert np.any(before.rewards["landing"] < 0.0)
    told = np.linalg.norm(state.task.command, axis=-1)
    assert (told > 0.0).mean() > 0.9, "drawn as at last"


def test_the_finish_weighs_anew_what_the_stretch_before_weighed(robots: Robots) -> None:
    _, before = robots.step(FINISH - 1)
    _, after = robots.step(FINISH)
    for name in ("velocity_fine", "walking_power"):
        share = getattr(TO_FINISH, name) / getattr(AT_LAST, name)
        assert np.any(before.rewards[name])
        np.testing.assert_allclose(after.rewards[name], share * before.rewards[name], rtol=1e-5)
    lower = TO_FINISH.foot_height / FIRST.reward.foot_height * before.rewards["foot_height"]
    assert np.any(lower)
    np.testing.assert_allclose(after.rewards["foot_height"], lower, rtol=1e-5)


def test_pushes_come_as_often_as_the_finish_asks(robots: Robots) -> None:
    """The wait for the next is drawn when one has come: half to one and a half times the mean."""
    pushed = robots.start._replace(task=robots.start.task._replace(push_left=jnp.ones(N, int)))
    for iteration, seconds in ((FINISH - 1, FIRST.push_interval_s), (FINISH, 0.2)):
        state, _ = robots.step(iteration, pushed)
        wait = np.asarray(state.task.push_left) * 0.02 / seconds
        assert 0.5 <= wait.min() < 0.8 < 1.2 < wait.max() <= 1.5


def test_only_at_last_do_fast_feet_bring_the_clock_back(robots: Robots) -> None:
    """To who is told to stand, in what it sees and in what it is paid for."""
    told = robots.start.task._replace(command=jnp.zeros((N, 3)))
    qvel = robots.start.physics.qvel.at[:, 6:].add(3.0)  # rad/s of every joint; the base rests
    physics = robots.start.physics._replace(qvel=qvel)
    sways = robots.start._replace(task=told, physics=physics)
    size, shares = {}, {}
    for iteration in (TURN - 1, END - 1, END):
        pause = robots.env.at(jnp.int32(iteration)).pause
        obs = jnp.zeros((1, 47)).at[:, 21:33].set(0.05 * 3.0).at[:, -2:].set(1.0)
        size[iteration] = float(pause(obs)[0, -1])
        _, step = robots.step(iteration, sways)
        free = np.asarray(step.rewards["stand_still"]) == 0.0
        shares[iteration] = free.mean()
    assert size == {TURN - 1: 0.25, END - 1: 0.25, END: 1.0}
    assert shares[TURN - 1] == 0.0
    assert shares[END - 1] < 0.1 < 0.9 < shares[END]


def test_each_alone_does_without_the_others() -> None:
    for later, last, finish in ((TURN, 0, 0), (0, TURN, 0), (0, 0, TURN)):
        task = replace(
            FIRST,
            later=replace(ASKED, iteration=later),
            last=replace(AT_LAST, iteration=last),
            finish=replace(TO_FINISH, iteration=finish),
        )
        config = Config(robot="g1_12dof", physics="native", num_envs=1, joystick=task)
        env = make_env(config)
        start = jax.jit(env.reset)(KEY)
        fallen = start.physics._replace(qpos=start.physics.qpos.at[:, 2].set(0.3))
        start = start._replace(physics=fallen)
        step = jax.jit(lambda i, s, env=env: env.at(i).step(s, jnp.zeros((1, 12)), KEY))
        for iteration in (TURN - 1, TURN):
            asked = ASKED if later else AT_LAST if last else TO_FINISH
            wanted = asked if iteration == TURN else FIRST.reward
            got = step(jnp.int32(iteration), start)[1].rewards["fall"]
            np.testing.assert_allclose(got, wanted.fall)
