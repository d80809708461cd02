"""A curriculum is data: in Python, in files, as a flag; and what its stages come to."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from jaxrl_hw import Config, JoystickConfig, preset_config
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.config.curriculum import Stage, format_stage, may_change, stage_index
from jaxrl_hw.config.factory import make_task, task_stages
from jaxrl_hw.config.resolve import stage_settings
from jaxrl_hw.config.units import format_count, parse_count
from jaxrl_hw.config.validation import check, from_dict, to_dict
from jaxrl_hw.envs.tasks.cartpole.task import CartpoleParams
from jaxrl_hw.envs.tasks.joystick.params import JoystickParams
from jaxrl_hw.errors import UserError

STAGES = (
    Stage(
        4_900_000,
        {"joystick.zero_command": 0.25, "joystick.reward.fall": -5.0, "joystick.vx": (-2.0, 2.0)},
    ),
    Stage(11_000_000, {"joystick.reward.fall": -9.0}),
)
WORDS = [
    "4.9M: joystick.zero-command=0.25 joystick.reward.fall=-5 joystick.vx=-2,2",
    "11M: joystick.reward.fall=-9.0",
]
YAML = """
curriculum:
  - env_steps: 4900000
    settings:
      joystick: {zero_command: 0.25, vx: [-2, 2], reward: {fall: -5}}
  - env_steps: 11M
    settings: {joystick.reward.fall: -9}
"""


def test_flag_file_and_python_say_the_same(tmp_path: Path) -> None:
    common = ["--robot", "go1", "--run-dir", str(tmp_path / "run")]
    (tmp_path / "mine.yaml").write_text(YAML)
    (tmp_path / "words.json").write_text(json.dumps({"curriculum": WORDS}))
    wanted = check(Config(curriculum=STAGES)).curriculum
    assert wanted == STAGES
    assert parse([*common, "--curriculum", *WORDS]).curriculum == wanted
    for name in ("mine.yaml", "words.json"):
        assert parse([*common, "--config", str(tmp_path / name)]).curriculum == wanted
    again = parse([*common, "--curriculum", *map(format_stage, wanted)])
    assert again.curriculum == wanted
    assert parse([*common, "--curriculum", "none"]).curriculum == ()


def test_it_survives_json() -> None:
    config = check(Config(robot="go1", curriculum=STAGES))
    saved = json.loads(json.dumps(to_dict(config)))
    assert saved["curriculum"][1] == {
        "env_steps": 11_000_000,
        "settings": {"joystick.reward.fall": -9.0},
    }
    assert from_dict(saved, Config(), "test") == config
    assert hash(from_dict(saved, Config(), "test")) == hash(config)


def test_stages_add_up() -> None:
    config = check(Config(robot="go1", curriculum=STAGES))
    begin, early, late = stage_settings(config)
    assert begin == (0, config.joystick)
    assert early[0] == 4_900_000
    assert (early[1].zero_command, early[1].reward.fall, early[1].vx) == (0.25, -5.0, (-2.0, 2.0))
    assert late[0] == 11_000_000
    assert (late[1].zero_command, late[1].reward.fall) == (0.25, -9.0)
    assert replace(late[1], zero_command=config.joystick.zero_command).noise == begin[1].noise


def test_a_stage_holds_from_its_env_step_on() -> None:
    begins = {0: 0, 4_899_999: 0, 4_900_000: 1, 10_999_999: 1, 11_000_000: 2, 10**12: 2}
    assert {at: stage_index(STAGES, at) for at in begins} == begins


def test_a_stage_keeps_what_the_ones_before_it_changed() -> None:
    config = replace(preset_config("go1"), curriculum=STAGES)
    begin, first, second = (settings for _, settings in stage_settings(config))
    assert [at for at, _ in stage_settings(config)] == [0, 4_900_000, 11_000_000]
    assert begin == config.joystick
    assert (first.zero_command, first.reward.fall, first.vx) == (0.25, -5.0, (-2.0, 2.0))
    assert (second.zero_command, second.reward.fall, second.vx) == (0.25, -9.0, (-2.0, 2.0))
    assert first.reward.slip == second.reward.slip == begin.reward.slip


def test_a_stage_may_change_exactly_the_parameters_of_the_tasks() -> None:
    weights = {f"reward.{name}" for name in asdict(JoystickConfig().reward)}
    single = {name.removeprefix("log_") for name in JoystickParams._fields if name != "reward"}
    wanted = {f"joystick.{name}" for name in single | weights}
    wanted |= {f"cartpole.{name}" for name in CartpoleParams._fields}
    assert set(may_change(Config)) == wanted


def test_what_shapes_the_program_is_no_stages_business() -> None:
    allowed = may_change(Config)
    assert {"joystick.reward.slip", "joystick.vx", "joystick.noise", "cartpole.pole_mass"} <= set(
        allowed
    )
    shapes = {"joystick.episode_s", "joystick.randomize", "ppo.gamma"}
    assert not shapes & set(allowed)


@pytest.mark.parametrize(
    ("stage", "named"),
    [
        (Stage(5, {"joystick.episode_s": 3.0}), ["joystick.episode_s"]),
        (Stage(5, {"joystick.vx": (2.0, 1.0)}), ["joystick.vx", "2.0 1.0"]),
        (Stage(5, {"joystick.noise": float("inf")}), ["joystick.noise", "inf"]),
        (Stage(-5, {"joystick.noise": 1.0}), ["-5"]),
    ],
)
def test_a_stage_is_held_to_the_settings_own_bounds(stage: Stage, named: list[str]) -> None:
    with pytest.raises(UserError) as error:
        check(Config(curriculum=(stage,)))
    assert [word for word in named if word not in str(error.value)] == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("4.9M", 4_900_000), ("4915200", 4_915_200), ("30k", 30_000), ("1e6", 1_000_000), ("0", 0)],
)
def test_env_steps_are_read_as_people_write_them(text: str, number: int) -> None:
    assert parse_count(text, "test") == number
    assert parse_count(format_count(number), "test") == number


@pytest.mark.parametrize("text", ["", "M", "-1", "1.5", "nan", "inf", "4.9X"])
def test_no_number_of_env_steps(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_count(text, "test")
    assert f'"{text}"' in str(error.value)


def test_a_curriculum_of_a_task_without_parameters_is_refused() -> None:
    config = replace(preset_config("cartpole"), num_envs=2, physics="native")
    stage = Stage(1000, {"cartpole.start_angle": 0.1})
    task, _ = make_task(config)
    bare = task._replace(params=(), params_of=lambda settings: ())
    assert len(task_stages(replace(config, curriculum=(stage,)), task)) == 2
    assert len(task_stages(config, bare)) == 1
    with pytest.raises(UserError, match="cartpole"):
        task_stages(replace(config, curriculum=(stage,)), bare)
