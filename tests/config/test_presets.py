"""Whole configurations by robot and preset, and those of a robot that has none of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxrl_hw import preset_config, register_robot, robot_names
from jaxrl_hw.config.presets import PRESETS
from jaxrl_hw.config.resolve import stage_settings
from jaxrl_hw.config.validation import check
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.errors import UserError

SHIPPED = ("cartpole", "g1", "g1_12dof", "go1", "go2", "h1", "t1")


@pytest.mark.parametrize("robot", SHIPPED)
@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_can_be_used(robot: str, preset: str) -> None:
    config = check(preset_config(robot, preset))
    assert (config.robot, config.preset) == (robot, preset)


def test_what_presets_differ_in() -> None:
    def told(robot: str) -> list[tuple[float, float, int, str]]:
        found = [preset_config(robot, name) for name in PRESETS]
        assert {c.iterations for c in found} == {0}, "goals are env steps"
        steps = [(c.timesteps / 1e6, c.ppo.anneal_steps / 1e6) for c in found]
        return [(*s, len(c.net.policy), c.early_stop) for s, c in zip(steps, found, strict=True)]

    stop = "patience=10M,min-delta=0.5"
    fast, best = (3.7, 3.3, 2, ""), (60, 54, 3, stop)
    assert told("g1") == [fast, (16, 14.4, 2, ""), best]
    assert told("go1") == [fast, (20, 18, 2, ""), best]
    assert told("g1_12dof") == [fast, (16, 14.4, 2, ""), best]
    assert told("cartpole") == [(0.8, 0, 2, ""), (1.6, 0, 2, ""), (3.2, 0, 2, "")]


@pytest.mark.parametrize("robot", SHIPPED[1:])
def test_a_preset_of_another_algorithm_has_goals_and_a_replay_of_its_own(robot: str) -> None:
    found = [preset_config(robot, name, algo="sac") for name in PRESETS]
    assert [c.timesteps for c in found] == [4_500_000, 6_000_000, 12_000_000]
    sac = [check(c).sac for c in found]  # type: ignore[attr-defined]
    assert [s.buffer_size for s in sac] == [200_000, 400_000, 1_000_000]
    assert {s.n_step for s in sac} == {3}
    ppo = [preset_config(robot, name) for name in PRESETS]
    assert [c.net.policy for c in found] == [c.net.policy for c in ppo]


def test_what_robots_differ_in() -> None:
    g1, legs, go1, go2 = (preset_config(name) for name in ("g1", "g1_12dof", "go1", "go2"))
    assert (g1.joystick.reward.posture, legs.joystick.reward.posture) == (-1.5, -1.0)
    walks, begins = ({**c.curriculum[0].settings} for c in (g1, legs))
    assert {name for name in walks if walks[name] != begins.get(name)} == {
        "joystick.reward.yaw_error",
        "joystick.reward.power",
    }
    assert g1.joystick.push_speed == 1.5
    assert legs.joystick.standing_phase == 0.25
    assert (go1.joystick.swing_fraction, go1.joystick.reward.base_height) == (0.5, -20.0)
    assert [c.net.init_std for c in (g1, legs, go1)] == [0.6, 0.8, 0.5]
    assert [c.gains for c in (g1, legs, go1)] == ["", "", ""]
    assert [c.joystick.gait_period for c in (g1, legs, go1, go2)] == [0.5, 0.0, 0.4, 0.4]
    assert [c.timestep for c in (g1, legs, go1)] == [0.005, 0.02 / 3, 0.005]
    assert {(c.net.memory, c.ppo.estimation_coef) for c in (g1, legs, go1)} == {("history", 0.5)}


def test_an_own_robot_gets_the_presets_of_its_kind() -> None:
    for source, kin, timestep in (("go1", "go1", 0.0), ("g1_12dof", "g1", 0.0)):
        name = f"test_{source}"
        register_robot(replace(get_robot(source), name=name))
        mine, theirs = preset_config(name), preset_config(kin)
        assert mine.joystick.swing_fraction == theirs.joystick.swing_fraction
        assert mine.joystick.dry_friction is True
        assert (mine.net.policy, mine.timesteps) == ((256, 128), theirs.timesteps)
        assert (mine.timestep, mine.curriculum) == (timestep, theirs.curriculum)


@pytest.mark.parametrize("robot", SHIPPED[1:])
def test_a_robot_that_walks_is_trained_for_a_real_one(robot: str) -> None:
    """It learns to walk undisturbed; then all that the settings' defaults bring is on."""
    (_, first), (walks, real), *_ = stage_settings(preset_config(robot))
    assert 3_000_000 < walks < 6_000_000
    assert (first.noise, first.action_delay, first.kp) == (0.2, (0.0, 0.0), (1.0, 1.0))
    usual = JoystickConfig()
    for name in (
        *("noise", "kp", "kd", "torque_limit", "joint_damping", "joint_friction", "joint_offset"),
        *("imu_tilt", "gyro_bias", "action_delay", "observation_delay", "friction"),
        *("torso_offset", "dry_friction"),
    ):
        assert getattr(real, name) == getattr(usual, name), name


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"robot": "g2"}, '"g2"'),
        ({"preset": "fastest"}, '"fastest"'),
        ({"task": "joystik"}, '"joystik"'),
        ({"algo": "ppoo"}, '"ppoo"'),
    ],
)
def test_unknown_names_are_refused(asked: dict[str, str], named: str) -> None:
    with pytest.raises(UserError, match=named):
        preset_config(**asked)


def test_all_robots_of_the_package_have_presets() -> None:
    assert set(SHIPPED) <= set(robot_names())
