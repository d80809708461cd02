"""Robots and tasks of one's own bring groups of settings: in Python, in config.json, as flags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import Config, preset_config, register_robot, register_task
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.config.fields import with_values
from jaxrl_hw.config.presets import config_class
from jaxrl_hw.config.resolve import robot_spec, stage_settings, task_settings
from jaxrl_hw.config.saved import config_from
from jaxrl_hw.config.validation import check, to_dict
from jaxrl_hw.envs.robots import RobotSpec, get_robot
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import setting


@dataclass(frozen=True)
class LiftConfig:
    """Lift something."""

    height: float = setting(0.3, unit="m", above=0.0, stage=True)
    """How high."""
    load: tuple[float, float] = (1.0, 2.0)
    """kg."""


@dataclass(frozen=True)
class ArmConfig:
    """An arm."""

    gain: float = setting(1.0, at_least=0.5)
    """Factor on its action."""


def make_lift(settings: LiftConfig, robot: RobotSpec, model: Any) -> Any:
    """Never made here."""


def gained(settings: ArmConfig, spec: RobotSpec) -> RobotSpec:
    return replace(spec, action_scale=tuple(settings.gain * x for x in spec.action_scale))


ARM = replace(get_robot("cartpole"), name="test_arm", task="test_lift")


@pytest.fixture(scope="module", autouse=True)
def own() -> None:
    register_task("test_lift", make_lift, LiftConfig)
    presets = {"all": {"test_lift.height": 0.4}, "fast": {"iterations": 7, "test_arm.gain": 2.0}}
    register_robot(ARM, ArmConfig, presets, gained)


def test_their_groups_are_there_where_they_are_used() -> None:
    own, usual = preset_config("test_arm", "fast"), preset_config("cartpole")
    assert isinstance(own, Config)
    assert (own.iterations, own.test_lift.height, own.test_arm.gain) == (7, 0.4, 2.0)
    assert type(usual) is Config
    assert type(preset_config("test_arm")) is type(own), "one class, made once"
    assert robot_spec(own).action_scale == (2.0,)
    assert task_settings(own) == LiftConfig(height=0.4)


def test_a_plain_config_takes_their_defaults() -> None:
    config = Config(robot="test_arm")
    assert task_settings(config) == LiftConfig()
    assert robot_spec(config) == ARM


def test_they_are_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--robot", "test_arm", "--run-dir", str(tmp_path / "run")]
    words = ["--test-lift.height", "0.5", "--test_lift.load", "3", "4", "--test-arm.gain", "1.5"]
    stage = "1k: test-lift.height=0.9"
    config: Any = parse([*common, *words, "--curriculum", stage])
    assert config.test_lift == LiftConfig(0.5, (3.0, 4.0))
    assert robot_spec(config).action_scale == (1.5,)
    assert [(at, s.height) for at, s in stage_settings(config)] == [(0, 0.5), (1000, 0.9)]
    with pytest.raises(SystemExit):
        parse([*common, "--help"])
    shown = " ".join(capsys.readouterr().out.split())
    assert "--test-lift.height FLOAT" in shown
    assert "How high. [m, > 0]" in shown
    for bad, named in ((["--test-arm.gain", "0.4"], "0.4"), (["--test-lift.hight", "1"], "hight")):
        with pytest.raises(UserError) as error:
            parse([*common, *bad])
        assert named in str(error.value)


def test_they_come_back_from_json() -> None:
    config = with_values(preset_config("test_arm"), {"test_lift.load": (5.0, 6.0)})
    saved = to_dict(check(config))
    assert saved["test_lift"] == {"height": 0.4, "load": [5.0, 6.0]}
    assert saved["test_arm"] == {"gain": 1.0}
    assert config_from(saved, "test") == config


def test_a_robot_may_do_another_task_than_its_own() -> None:
    config = preset_config("cartpole", task="test_lift")
    assert task_settings(config) == LiftConfig()
    assert not hasattr(config, "test_arm")


@pytest.mark.parametrize("name", ["joystick", "net", "test_lift"])
def test_two_groups_need_two_names(name: str) -> None:
    register_robot(replace(ARM, name=name), ArmConfig)
    with pytest.raises(UserError) as error:
        config_class(name)
    assert f'"{name}"' in str(error.value)


def test_a_group_is_named_by_an_identifier() -> None:
    with pytest.raises(UserError, match="my-lift"):
        register_task("my-lift", make_lift, LiftConfig)
    with pytest.raises(UserError, match="my-arm"):
        register_robot(replace(ARM, name="my-arm"), ArmConfig)


def test_a_task_without_settings_takes_the_config() -> None:
    register_task("test_bare", make_lift)
    config = Config(robot="cartpole", task="test_bare")
    assert task_settings(config) is config
