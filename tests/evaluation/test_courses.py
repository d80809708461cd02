"""What the robust suite commands, and when a robot has settled."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrl_hw import preset_config
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.evaluation.courses import commands_of, drive_times, settle_s
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.evaluation.scoring import COMMANDS, commands_for
from jaxrl_hw.evaluation.trajectory import Step, Trajectory
from jaxrl_hw.evaluation.worlds import CALM, Conditions

DT = 0.02


def test_held_commands_are_the_ten_and_random_ones_lie_between_their_extremes() -> None:
    held = commands_of("held", COMMANDS, 3, 50, DT)
    assert held.shape == (50, 30, 3)
    np.testing.assert_array_equal(held[17, 10:20], COMMANDS)
    drawn = commands_of("random", COMMANDS, 20, 50, DT)
    np.testing.assert_array_equal(drawn, commands_of("random", COMMANDS, 20, 50, DT))
    np.testing.assert_array_equal(drawn[0], drawn[-1])
    low, high = np.min(COMMANDS, axis=0), np.max(COMMANDS, axis=0)
    assert np.all((drawn >= low) & (drawn <= high))
    reached = np.ptp(drawn[0], axis=0)
    assert np.all(reached > 0.9 * (high - low))


@pytest.mark.parametrize("robot", ["g1", "go1"])
def test_a_drive_stands_then_steps_and_ramps_between_the_ten_commands(robot: str) -> None:
    ten = commands_for(get_robot(robot))
    drives, times = commands_of("drive", ten, 1, 500, DT), drive_times(500, DT)
    assert drives.shape == (500, 8, 3)
    assert not drives[:100].any(), "2 s"
    assert times.changes == [100, 200, 300, 400]
    assert times.ends == [200, 300, 400, 500]
    ends = {tuple(np.round(drives[end - 1, i], 9)) for end in times.ends for i in range(8)}
    assert ends <= set(ten)
    stepped, ramped = drives[:, 0], drives[:, 1]
    np.testing.assert_array_equal(stepped[100], stepped[199])
    np.testing.assert_allclose(ramped[124], 0.5 * stepped[124])  # half of its half
    np.testing.assert_array_equal(ramped[150:200], stepped[150:200])
    moves = np.linalg.norm(drives[times.ends[0] - 1, :, :2] - drives[99, :, :2], axis=-1)
    assert moves.min() > 0.15


def following(lag: int, sway: float = 0.0) -> Trajectory:
    """Robots that do what was commanded `lag` steps ago, and sway with each gait cycle of 0.8 s."""
    commands = commands_of("drive", COMMANDS, 1, 500, DT)
    velocity = np.concatenate([np.zeros((lag, 8, 3)), commands[: 500 - lag]])
    velocity[..., 1] += sway * np.sin(2 * np.pi * np.arange(500) * DT / 0.8)[:, None]
    qpos, qvel = np.zeros((500, 8, 7)), np.zeros((500, 8, 6))
    qpos[..., 3] = 1.0
    qvel[..., :2] = velocity[..., :2]
    step = Step(qpos, qvel, commands, np.zeros((500, 8), bool), np.zeros((500, 8)), {})
    return Trajectory("joystick", DT, 0.002, step)


def test_settling_takes_as_long_as_the_robot_lags_and_swaying_is_no_error() -> None:
    assert settle_s(following(0), 0.8) == 0.0
    assert settle_s(following(0, sway=0.3), 0.8) == pytest.approx(0.0, abs=1e-9)
    lagging = [settle_s(following(lag), 0.8) for lag in (20, 40)]
    assert 0.4 < lagging[0] < lagging[1] < 2.0
    # no cycle to average over, a lag of 0.6 s: that long after a step; a ramp of 1 s over 0.583 m/s
    # is left by 0.15 m/s after 1.6 - 0.15 / 0.583 = 1.343 s, one over 0.5 m/s after 1.3 s
    first = following(30).of_robots(slice(0, 1))
    assert settle_s(first, DT) == pytest.approx((0.6 + 1.343 + 0.6 + 1.3) / 4, abs=DT)
    assert settle_s(following(499), 0.8) == pytest.approx(2.0, abs=0.5)


@pytest.mark.slow
def test_each_condition_reaches_the_robot_that_it_is_for() -> None:
    observed = []

    def policy(obs):
        observed.append(np.asarray(obs))
        return np.tile(np.float32([0.4, -0.4] * 6), (len(obs), 1))

    worlds = [
        CALM,
        Conditions(joint_offset=0.02),
        Conditions(imu_tilt=0.0175, gyro_bias=0.05),
        Conditions(observation_delay_s=0.02),
        Conditions(gains=(0.8, 0.8)),
        Conditions(joint_losses=(4.0, 4.0)),
        Conditions(torso_offset=0.05),
    ]
    still = np.zeros((len(worlds), 3), np.float32)
    trajectory = drive(preset_config("g1_12dof"), policy, still, 0.2, 0, worlds)
    first, later = observed[0][:, :45], observed[1][:, :45]
    off = np.abs(first - first[0]).max(axis=0), np.abs(first - first[0]).max(axis=1)
    assert np.flatnonzero(off[1]).tolist() == [1, 2], "before anything has moved"
    assert 0.005 < np.abs(first[1, 9:21]).max() <= 0.02
    assert 0.001 < np.abs(first[2, :6]).max() < 1.1
    joints = trajectory.qpos[:, :, 7:]
    # the late sensors change what is seen, not how the robot moves
    np.testing.assert_allclose(joints[0, 3], joints[0, 0], atol=1e-6)
    assert np.abs(later[3, :33] - later[0, :33]).max() > 0.005
    for i in (1, 4, 5, 6):
        assert np.abs(joints[:, i] - joints[:, 0]).max() > 1e-4
    home = get_robot("g1_12dof").load().key("home").qpos[7:]
    reach = np.abs(joints[0] - home).max(axis=1)
    assert reach[4] < reach[0], "weaker motors move it less"


@pytest.mark.slow
def test_a_policy_is_driven_on_the_other_model() -> None:
    def still(obs):
        return np.zeros((len(obs), 12))

    commands = np.zeros((1, 3), np.float32)
    main, other = (
        drive(preset_config("g1_12dof"), still, commands, 0.4, other=other)
        for other in (False, True)
    )
    assert main.qpos.shape == other.qpos.shape
    assert 1e-5 < np.abs(main.qpos - other.qpos).max() < 0.1
