"""A driven robot follows exactly the given command, and the trajectory is what it did."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.errors import UserError
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.evaluation.worlds import CALM, PUSH_EVERY_S, Conditions, driving_config

pytestmark = pytest.mark.slow  # every driver is compiled

COMMANDS = np.float32([(0.5, 0.2, -0.4), (0.0, 0.0, 0.0), (-1.0, 0.0, 0.8)])


def still(obs):
    """Hold the home pose."""
    return np.zeros((len(obs), 12))


def kick(obs):
    """Nobody stays on their feet like this."""
    return np.tile(np.float32([4.0, -4.0] * 6), (len(obs), 1))


def test_the_policy_sees_its_own_command_at_every_step_also_after_a_fall(walking_run):
    commands = []

    def policy(obs):
        commands.append(np.asarray(obs)[:, 6:9] / (2.0, 2.0, 0.25))
        return kick(obs)

    trajectory = drive(walking_run.config, policy, COMMANDS, seconds=3.0)
    assert trajectory.falls.min() >= 1
    expected = np.broadcast_to(COMMANDS, (150, 3, 3))
    np.testing.assert_allclose(np.stack(commands), expected, atol=1e-6)
    np.testing.assert_array_equal(trajectory.commands, expected)


def test_after_a_fall_the_robot_starts_again_from_home(walking_run):
    trajectory = drive(walking_run.config, kick, COMMANDS, seconds=3.0)
    home = get_robot("g1_12dof").load().key("home").qpos
    at = np.flatnonzero(trajectory.fell[:, 0])
    assert len(at) == trajectory.falls[0]
    np.testing.assert_allclose(trajectory.qpos[at, 0], np.tile(home, (len(at), 1)), atol=1e-6)
    assert not np.allclose(trajectory.qpos[at - 1, 0], home, atol=0.05)


def test_velocities_are_those_of_the_base_in_its_own_frame(walking_run):
    trajectory = drive(walking_run.config, still, COMMANDS, seconds=0.8)
    model = get_robot("g1_12dof").load()
    data, body, found = mujoco.MjData(model), model.body("pelvis").id, np.zeros(6)
    for step in range(0, 40, 5):
        data.qpos[:] = trajectory.qpos[step, 0]
        data.qvel[:] = np.asarray(trajectory.steps.qvel)[step, 0]
        mujoco.mj_forward(model, data)
        mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, body, found, 1)
        np.testing.assert_allclose(trajectory.velocity[step, 0], found[3:], atol=1e-5)
        np.testing.assert_allclose(trajectory.yaw_rate[step, 0], found[2], atol=1e-5)
    moved = np.linalg.norm(trajectory.velocity, axis=-1).max()
    assert moved > 0.05, "a robot at rest would agree with anything"


def test_commands_may_change_by_control_step(walking_run):
    table = np.repeat(COMMANDS, 4, axis=0)[:, None] * np.ones((3, 1), np.float32)
    trajectory = drive(walking_run.config, walking_run.policy, table, seconds=99.0)
    np.testing.assert_array_equal(trajectory.commands, table)


def test_physics_is_finer_than_in_training(walking_run):
    trajectory = drive(walking_run.config, still, COMMANDS, seconds=0.1)
    assert trajectory.timestep == 0.002 < get_robot("g1_12dof").timestep
    assert trajectory.control_dt == pytest.approx(0.02)


def test_the_same_seed_gives_the_same_trajectory_and_pushes_come_when_they_are_due(walking_run):
    def driven(conditions):
        seconds = PUSH_EVERY_S + 0.1
        return drive(walking_run.config, still, COMMANDS, seconds, 3, conditions)

    due = round(PUSH_EVERY_S / 0.02)
    calm, again = driven(CALM), driven(CALM)
    pushed = driven([CALM, CALM, Conditions(push_speed=1.0)])
    np.testing.assert_array_equal(calm.qpos, again.qpos)
    np.testing.assert_array_equal(calm.qpos[:due], pushed.qpos[:due])
    np.testing.assert_array_equal(calm.qpos[:, :2], pushed.qpos[:, :2])  # each its own world
    jump = np.linalg.norm((pushed.velocity - calm.velocity)[due, 2, :2])
    assert 0.3 < jump < 1.3


def test_all_robots_are_nominal_by_default(walking_run):
    def end(conditions):
        trajectory = drive(walking_run.config, still, COMMANDS, 0.4, conditions=conditions)
        return trajectory.qpos[-1]

    calm = end(CALM)
    np.testing.assert_array_equal(calm[0], calm[1])
    for hard in (Conditions(torso_mass=(-3.0, 3.0)), Conditions(friction=(0.05, 0.06))):
        mixed = end([CALM, hard, hard])
        np.testing.assert_array_equal(mixed[0], calm[0])
        assert np.abs(mixed[1:] - calm[1:]).max(axis=1).min() > 1e-6


def test_noise_and_late_actions_reach_the_robot_they_are_for(walking_run):
    observed = []

    def policy(obs):
        observed.append(np.asarray(obs))
        return kick(obs)

    worlds = [CALM, Conditions(noise=1.0), Conditions(delay_s=0.02)]
    same = np.zeros((3, 3), np.float32)
    trajectory = drive(walking_run.config, policy, same, 0.1, 0, worlds)
    # gait phases differ, so the last two entries do
    off = np.abs(observed[0][:, :45] - observed[0][0, :45]).max(axis=1)
    assert off[0] == off[2] == 0.0
    assert 0.01 < off[1] < 0.2
    moved = np.abs(trajectory.qpos[0, :, 7:] - trajectory.qpos[0, :1, 7:]).max(axis=1)
    assert moved[1] == 0.0
    assert moved[2] > 0.01


def test_there_must_be_as_many_worlds_as_robots(walking_run):
    with pytest.raises(UserError, match=r"3 .* 2"):
        drive(walking_run.config, still, COMMANDS, 0.1, conditions=[CALM, CALM])


@pytest.mark.parametrize("late", [{"delay_s": 0.03}, {"observation_delay_s": 0.03}])
def test_a_delay_of_more_than_a_control_step_is_refused_in_milliseconds(walking_run, late):
    with pytest.raises(UserError, match=r"20 ms.* 30 ms"):
        drive(walking_run.config, still, COMMANDS[:1], 0.1, conditions=[Conditions(**late)])


def test_cartpole_is_started_at_random(cartpole_run):
    trajectory = drive(cartpole_run.config, cartpole_run.policy, np.zeros((16, 3)), seconds=0.2)
    assert trajectory.qpos.shape == (10, 16, 2)
    assert len(np.unique(trajectory.qpos[0, :, 1])) == 16
    assert not trajectory.fell.any()


@pytest.mark.parametrize("robot", ["g1_12dof", "cartpole"])
def test_what_disturbs_in_training_is_off_where_a_policy_is_driven(robot):
    trained = preset_config(robot)
    driven = driving_config(trained, 3)
    still, cart = driven.joystick, driven.cartpole
    assert (still.push_speed, still.start_yaw, still.zero_command) == (0.0, 0.0, 0.0)
    assert still.link_mass == still.armature == cart.pole_mass == (1.0, 1.0)
    assert min(still.episode_s, cart.episode_s) > 1e5, "no time limit"
    assert (still.reward, still.crouch) == (trained.joystick.reward, trained.joystick.crouch)


def test_commands_of_another_shape_are_refused(walking_run):
    with pytest.raises(UserError, match=r"\(3,\)"):
        drive(walking_run.config, walking_run.policy, [0.5, 0.0, 0.0], 1.0)
