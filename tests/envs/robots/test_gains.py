"""A robot driven with another set of gains, or stepping in another rhythm, than its own."""

from __future__ import annotations

from dataclasses import replace

import mujoco
import numpy as np
import pytest

from jaxrl_hw import Config, preset_config
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.config.factory import load_task, shown_model
from jaxrl_hw.config.migrations import as_now
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.config.saved import config_from
from jaxrl_hw.config.validation import to_dict
from jaxrl_hw.envs.robots import get_robot, robot_names
from jaxrl_hw.envs.robots.spec import Gains
from jaxrl_hw.errors import UserError
from jaxrl_hw.plan import main as plan
from jaxrl_hw.policies.metadata import describe
from jaxrl_hw.policies.sources import like_origin, origin_of

SETS = [(name, gains) for name in robot_names() for gains in get_robot(name).gain_sets]


def driven(robot: str, gains: str) -> Config:
    return replace(preset_config(robot), gains=gains)


def stiffness(model: mujoco.MjModel) -> tuple[list[float], list[float]]:
    assert (model.actuator_biasprm[:, 1] == -model.actuator_gainprm[:, 0]).all()
    return model.actuator_gainprm[:, 0].tolist(), (-model.actuator_biasprm[:, 2]).tolist()


@pytest.mark.parametrize(("robot", "gains"), SETS)
def test_all_models_of_a_robot_and_its_policies_have_the_gains(robot: str, gains: str) -> None:
    config, wanted = driven(robot, gains), get_robot(robot).gain_sets[gains]
    asked = list(wanted.kp), list(wanted.kd)
    for model in (load_task(config)[1], load_task(config, other=True)[1], shown_model(config)):
        assert stiffness(model) == asked
    assert stiffness(get_robot(robot).load()) != asked
    meta = describe(config, 0, 0)
    np.testing.assert_allclose(meta["kp"], wanted.kp, rtol=1e-6)
    np.testing.assert_allclose(meta["kd"], wanted.kd, rtol=1e-6)
    assert meta["action_scale"] == list(wanted.action_scale)


@pytest.mark.parametrize(("robot", "gains"), SETS)
def test_home_holds_the_same_torques_and_stands(robot: str, gains: str) -> None:
    own, other = get_robot(robot).load(), robot_spec(driven(robot, gains)).load()

    def torques(model: mujoco.MjModel) -> np.ndarray:
        key = model.key("home")
        pose = key.qpos[model.jnt_qposadr[model.actuator_trnid[:, 0]]]
        return model.actuator_gainprm[:, 0] * (key.ctrl - pose)

    np.testing.assert_allclose(torques(other), torques(own), atol=1e-9)
    data = mujoco.MjData(other)
    mujoco.mj_resetDataKeyframe(other, data, other.key("home").id)
    for _ in range(round(1.0 / other.opt.timestep)):
        mujoco.mj_step(other, data)
    assert np.abs(data.qpos - other.key("home").qpos).max() < 0.02  # m, rad


@pytest.mark.parametrize(
    ("robot", "gains", "said"), [("g1", "stif", '"stiff"'), ("go1", "stiff", "robot go1")]
)
def test_a_set_that_the_robot_lacks_is_bad_input(
    robot: str, gains: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert plan(["--robot", robot, "--gains", gains]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "--gains" in line
    assert f'"{gains}"' in line
    assert said in line


def test_a_set_with_too_few_values_is_refused() -> None:
    short = Gains(kp=(1.0,), kd=(1.0,), action_scale=(1.0,))
    with pytest.raises(ValueError, match=r"gain set short .* 12 "):
        replace(get_robot("go1"), gain_sets={"short": short})


def test_a_set_and_the_models_gains_can_be_asked_for() -> None:
    assert parse(["--robot", "g1", "--gains", "stiff"]).gains == "stiff"
    assert parse(["--robot", "g1", "--gains", ""]).gains == ""


@pytest.mark.parametrize(("robot", "period"), [("g1", 0.8), ("go1", 0.5), ("g1_12dof", 0.8)])
def test_what_was_saved_before_keeps_its_gains_and_its_rhythm(robot: str, period: float) -> None:
    saved = to_dict(preset_config(robot))
    del saved["gains"], saved["joystick"]["gait_period"]
    found = robot_spec(config_from(as_now(saved), "saved"))
    assert (found.gains, found.gait_period) == (None, period)
    assert found.action_scale == get_robot(robot).action_scale


def test_a_run_that_starts_from_a_policy_is_driven_as_the_policy_was() -> None:
    own = origin_of("zoo:g1").config
    preset = preset_config("g1")
    preset = replace(preset, gains="" if own.gains else "stiff")
    preset = replace(preset, joystick=replace(preset.joystick, gait_period=0.5))
    begun = like_origin(preset, "zoo:g1")
    assert (begun.gains, begun.joystick.gait_period) == (own.gains, own.joystick.gait_period)


def test_a_rhythm_that_control_steps_do_not_resolve_is_bad_input() -> None:
    config = preset_config("g1")
    config = replace(config, joystick=replace(config.joystick, gait_period=0.06))
    with pytest.raises(UserError, match=r"gait-period .* 0\.06"):
        load_task(config)
