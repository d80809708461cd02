"""Stages of a curriculum: from an env step on the task has other parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.config.factory import make_task
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig, JoystickReward
from jaxrl_hw.envs.vector import make_vector_env
from jaxrl_hw.types import MILLION

pytestmark = pytest.mark.slow

N, TURN, END, FINISH = 32, 5, 9, 4_294_967_296 + 12
"""Robots, and env steps at which stages begin; the last is past 32 bits."""
KEY = jax.random.key(3)


def changed(settings: JoystickConfig, weights: dict[str, float], **values: Any) -> JoystickConfig:
    return replace(settings, reward=replace(settings.reward, **weights), **values)


FIRST = JoystickConfig(
    noise=0.0,
    push_speed=0.0,
    resample_s=(0.02, 0.02),
    zero_command=0.0,
    standing_phase=0.25,
    reward=JoystickReward(velocity_fine=1.5),
)
ASKED = changed(
    FIRST,
    {"yaw_rate": 4.5, "walking_power": -0.01, "landing": -4.0, "fall": -9.0},
    zero_command=1.0,
    recovery_speed=0.4,
)
AT_LAST = changed(
    ASKED,
    {"yaw_rate": 1.5, "fall": -20.0, "velocity_fine": 3.0, "walking_power": -0.03},
    zero_command=0.0,
    recovery_speed=2.0,
    standing_phase_speed=0.5,
)
TO_FINISH = changed(
    AT_LAST,
    {"fall": -30.0, "walking_power": -0.004, "velocity_fine": 6.0, "foot_height": 0.5},
    push_interval_s=0.2,
)
STAGES = {0: FIRST, TURN: ASKED, END: AT_LAST, FINISH: TO_FINISH}


def counter(env_steps: int) -> jax.Array:
    return jnp.array([env_steps // MILLION, env_steps % MILLION], jnp.uint32)


class Robots:
    """Environments that have just begun, and one step of theirs at an env step of a run."""

    def __init__(self) -> None:
        config = Config(robot="g1_12dof", physics="native", num_envs=N, joystick=FIRST)
        task, physics = make_task(config)
        stages = [(at, task.params_of(settings)) for at, settings in STAGES.items()]
        env = make_vector_env(task, physics, N, stages)
        self.start = jax.jit(env.reset)(KEY)
        self.stepped = jax.jit(lambda at, *args: env.step(*args, env.params_at(at)))
        self.env = env

    def step(self, env_steps: int, state: Any = None) -> Any:
        action = 0.5 * jax.random.normal(KEY, (N, 12))
        state = self.start if state is None else state
        return self.stepped(counter(env_steps), state, action, KEY)


@pytest.fixture(scope="module")
def robots() -> Robots:
    return Robots()


@pytest.mark.slow
def test_rewards_weigh_as_asked_from_that_env_step_on(robots: Robots) -> None:
    _, before = robots.step(TURN - 1)
    _, after = robots.step(TURN)
    np.testing.assert_array_equal(before.diagnostics["power"], after.diagnostics["power"])
    assert not np.any(before.rewards["walking_power"])
    walks = np.linalg.norm(robots.start.task.command, axis=-1) > 0.0
    paid = ASKED.reward.walking_power * 0.02 * after.diagnostics["power"] * walks
    np.testing.assert_allclose(after.rewards["walking_power"], paid, rtol=1e-5)
    threefold = 3.0 * before.rewards["yaw_rate"]
    np.testing.assert_allclose(after.rewards["yaw_rate"], threefold, rtol=1e-5)
    assert not np.any(before.rewards["landing"])
    assert np.any(after.rewards["landing"] < 0.0)


def test_a_fall_costs_as_asked_from_that_env_step_on(robots: Robots) -> None:
    physics = robots.start.physics
    fallen = physics._replace(qpos=physics.qpos.at[:, 2].set(0.3))
    start = robots.start._replace(physics=fallen)
    costs = {TURN - 1: FIRST.reward.fall, TURN: ASKED.reward.fall}
    costs |= {END - 1: ASKED.reward.fall, END: AT_LAST.reward.fall}
    costs |= {FINISH - 1: AT_LAST.reward.fall, FINISH: TO_FINISH.reward.fall}
    for env_steps, cost in costs.items():
        np.testing.assert_allclose(robots.step(env_steps, start)[1].rewards["fall"], cost)


def test_commands_are_drawn_as_asked_from_that_env_step_on(robots: Robots) -> None:
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
        share = getattr(TO_FINISH.reward, name) / getattr(AT_LAST.reward, name)
        assert np.any(before.rewards[name])
        np.testing.assert_allclose(after.rewards[name], share * before.rewards[name], rtol=1e-5)
    lower = TO_FINISH.reward.foot_height / FIRST.reward.foot_height * before.rewards["foot_height"]
    assert np.any(lower)
    np.testing.assert_allclose(after.rewards["foot_height"], lower, rtol=1e-5)


def test_pushes_come_as_often_as_the_finish_asks(robots: Robots) -> None:
    """The wait for the next is drawn when one has come: half to one and a half times the mean."""
    pushed = robots.start._replace(task=robots.start.task._replace(push_left=jnp.ones(N, int)))
    for env_steps, seconds in ((FINISH - 1, FIRST.push_interval_s), (FINISH, 0.2)):
        state, _ = robots.step(env_steps, pushed)
        wait = np.asarray(state.task.push_left) * 0.02 / seconds
        assert 0.5 <= wait.min() < 0.8 < 1.2 < wait.max() <= 1.5


def test_only_at_last_do_fast_feet_bring_the_clock_back(robots: Robots) -> None:
    """To who is told to stand, in what it sees and in what it is paid for."""
    told = robots.start.task._replace(command=jnp.zeros((N, 3)))
    qvel = robots.start.physics.qvel.at[:, 6:].add(3.0)  # rad/s of every joint; the base rests
    physics = robots.start.physics._replace(qvel=qvel)
    sways = robots.start._replace(task=told, physics=physics)
    size, shares = {}, {}
    for env_steps in (TURN - 1, END - 1, END):
        mask = robots.env.phase_mask(robots.env.params_at(counter(env_steps)))
        assert mask is not None
        obs = jnp.zeros((1, 47)).at[:, 21:33].set(0.05 * 3.0).at[:, -2:].set(1.0)
        size[env_steps] = float(mask(obs)[0, -1])
        _, step = robots.step(env_steps, sways)
        free = np.asarray(step.rewards["stand_still"]) == 0.0
        shares[env_steps] = free.mean()
    assert size == {TURN - 1: 0.25, END - 1: 0.25, END: 1.0}
    assert shares[TURN - 1] == 0.0
    assert shares[END - 1] < 0.1 < 0.9 < shares[END]


def test_a_parameter_that_no_stage_changes_stays_a_constant(robots: Robots) -> None:
    """So that the compiler can fold it; one compiled step serves every stage all the same."""
    for env_steps in STAGES:
        assert robots.env.params_at(counter(env_steps)).vx == FIRST.vx
    assert robots.stepped._cache_size() == 1


@pytest.mark.parametrize("env_steps", [0, TURN - 1, TURN, END, FINISH - 1, FINISH + 5 * MILLION])
def test_parameters_of_a_known_env_step_are_those_that_a_program_reads(
    robots: Robots, env_steps: int
) -> None:
    at = counter(env_steps)
    known, read = robots.env.params_at(at), jax.jit(robots.env.params_at)(at)
    np.testing.assert_allclose(jax.tree.leaves(known), jax.tree.leaves(read), rtol=1e-6)
