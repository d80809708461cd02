"""Configs as files and dictionaries, and the checks that need no machine."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.config import migrations
from jaxrl_hw.config.curriculum import read_stages
from jaxrl_hw.config.fields import flag, flatten, settings_of, value_at, with_values
from jaxrl_hw.config.idle import circumstances
from jaxrl_hw.config.resolve import discrete_count, robot_spec, stage_settings
from jaxrl_hw.config.schema import MOST_ACTIONS, Config
from jaxrl_hw.config.units import (
    parse_devices,
    parse_duration,
    parse_early_stop,
    parse_fraction,
    parse_memory,
    parse_num_envs,
)
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks import task_entry, task_names
from jaxrl_hw.errors import UserError, suggest, unknown


def to_dict(config: Config) -> dict[str, Any]:
    """The config as plain nested dictionaries, lists and numbers."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def from_dict(values: Mapping[str, Any], base: Config, source: str) -> Config:
    """`base` with other values from a nested dictionary; its keys may be dotted too.

    Raises:
      UserError: an unknown or retired key, or a value of another kind; names `source`.
    """
    known, changes = settings_of(type(base)), {}
    groups = {key.rpartition(".")[0] for key in known}
    for key, value in flatten(values).items():
        if key in groups:
            raise UserError(f'{source}: "{key}" must hold settings, got {value!r}')
        if key not in known:
            hint = migrations.successor(key) or suggest(key, known)
            raise UserError(f'{source}: unknown setting "{key}"{hint}')
        if key == "curriculum":
            changes[key] = read_stages(value, type(base), source)
        else:
            changes[key] = known[key].convert(value, source)
    return with_values(base, changes)


def load_file(path: Path) -> dict[str, Any]:
    """Settings from a JSON or YAML file, or from a run's config.json.

    Raises:
      UserError: no such file, or its text is not a mapping.
    """
    try:
        text = path.expanduser().read_text(encoding="utf-8")
        values = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise UserError(f"--config {path} cannot be read: {reason}") from error
    except (ValueError, RecursionError, yaml.YAMLError) as error:
        where = str(error).splitlines()[0]
        raise UserError(f"--config {path} is not valid JSON or YAML: {where}") from error
    if isinstance(values, dict) and isinstance(values.get("config"), dict):
        values = migrations.as_now(values["config"])
    if not isinstance(values, dict):
        raise UserError(f"--config {path} must hold settings by name, got {type(values).__name__}")
    return values


def check(config: Config) -> Config:
    """The config with its sizes parsed, if every value is one that can be used.

    Raises:
      UserError: the first value that cannot; says what is allowed.
    """
    known = settings_of(type(config))
    stages = read_stages(config.curriculum, type(config), "--curriculum")
    for key, setting in known.items():
        setting.check(value_at(config, key), flag(key))
    for stage in stages:
        for key, value in stage.settings.items():
            known[key].check(value, f"--curriculum {key}")
    _check_task(dataclasses.replace(config, curriculum=stages))
    _check_algorithm(config)
    if config.preset == "auto":
        raise UserError(
            'preset "auto" has not been settled: make the config by preset_config(robot, "auto")'
        )
    for field in dataclasses.fields(config):  # a settings class may compare its settings
        if hasattr(group := getattr(config, field.name), "check"):
            group.check()
    if not config.timesteps and not config.iterations:
        raise UserError("a run needs a goal: give --timesteps, such as 11M, or --iterations")
    _check_seeds(config)
    if config.time_limit:
        parse_duration(config.time_limit)
    parse_early_stop(config.early_stop)
    parse_memory(config.memory_limit)
    return dataclasses.replace(
        config,
        num_envs=parse_num_envs(config.num_envs),
        devices=parse_devices(config.devices),
        mem_fraction=parse_fraction(config.mem_fraction),
        curriculum=stages,
    )


def _check_seeds(config: Config) -> None:
    """Raises UserError for what does not go with several seeds."""
    if config.seeds == 1:
        return
    for name, usual, why in (
        ("devices", ("",), "all seeds train on one device"),
        ("wandb", ("off",), "it takes one run at a time"),
        ("resume", ("auto", "never", "required"), "each seed continues its own run"),
    ):
        value = getattr(config, name)
        if value not in usual:
            raise UserError(
                f"--{name} {value} does not go with --seeds {config.seeds}: {why}; leave one out"
            )


def _check_algorithm(config: Config) -> None:
    entry, motors = algorithm_entry(config.algo), len(get_robot(config.robot).action_scale)
    actions = discrete_count(config)
    if config.discrete_actions == 1 or actions > MOST_ACTIONS:
        most = math.floor(MOST_ACTIONS ** (1 / motors) + 1e-9)
        allowed = f"from 2 to {most}" if most > 1 else "0, as its actions are too many to list"
        raise UserError(
            f"--discrete-actions {config.discrete_actions} makes {actions:,} actions of the "
            f"{motors} motors of robot {config.robot}, at most {MOST_ACTIONS} are allowed: it must "
            f"be {allowed}; --algo sac, ppo and a2c take continuous actions"
        )
    entry.check(getattr(config, entry.name), circumstances(config))


def _check_task(config: Config) -> None:
    robot = get_robot(config.robot)
    name = robot.task if config.task == "auto" else config.task
    if name not in task_names():
        raise unknown("task", name, ("auto", *task_names()))
    if not task_entry(name).suits(robot) or (robot.mjcf is None and name != robot.task):
        raise UserError(f"the {name} task is not for robot {robot.name}: use --task {robot.task}")
    for _, settings in stage_settings(config):
        task_entry(name).check(settings, robot_spec(config))
