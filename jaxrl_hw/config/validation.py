"""Configs as files and dictionaries, and the checks that need no machine."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from jaxrl_hw.config import migrations
from jaxrl_hw.config.presets import PRESETS
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import (
    parse_duration,
    parse_early_stop,
    parse_fraction,
    parse_memory,
    parse_num_envs,
)
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks import task_names
from jaxrl_hw.envs.tasks.joystick.settings import STRETCHES, JoystickConfig, JoystickReward
from jaxrl_hw.errors import UserError, suggest, unknown

CHOICES = {
    "algo": ("ppo",),
    "physics": ("auto", "mjx", "native"),
    "preset": PRESETS,
    "precision": ("float32", "bfloat16"),
    "on_oom": ("shrink", "fail"),
    "net.activation": ("elu", "relu", "silu", "tanh"),
    "ppo.lr_schedule": ("adaptive", "fixed"),
    "ppo.symmetry": ("loss", "augment", "none"),
}
AT_LEAST = {
    "iterations": 1,
    "save_every": 1,
    "keep": 1,
    "keep_every": 0,
    "seed": 0,
    "threads": 0,
    "max_envs": 0,
    "timestep": 0.0,
    "net.init_std": 1e-3,
    "ppo.unroll": 1,
    "ppo.epochs": 1,
    "ppo.minibatches": 1,
    "ppo.clip": 1e-6,
    "ppo.value_clip": 0.0,
    "ppo.value_coef": 0.0,
    "ppo.entropy_coef": 0.0,
    "ppo.learning_rate": 1e-9,
    "ppo.desired_kl": 1e-9,
    "ppo.lr_min": 0.0,
    "ppo.lr_max": 1e-9,
    "ppo.anneal": 0,
    "ppo.critic_warmup": 0,
    "ppo.end_std": 1e-3,
    "ppo.max_grad_norm": 1e-9,
    "ppo.weight_averaging": 0.0,
    "ppo.symmetry_coef": 0.0,
    "joystick.episode_s": 0.1,
    "joystick.push_interval_s": 0.1,
    "joystick.finish.push_interval_s": 0.1,
    "joystick.noise": 0.0,
    "joystick.standing_phase_speed": 0.0,
    "joystick.recovery_speed": 0.0,
    **{f"joystick.{stretch}.iteration": 0 for stretch in STRETCHES},
    **{f"joystick.{stretch}.recovery_speed": 0.0 for stretch in STRETCHES},
    **{f"joystick.{stretch}.standing_phase_speed": 0.0 for stretch in STRETCHES[1:]},
    "joystick.velocity_sigma": 1e-6,
    "joystick.velocity_fine_sigma": 1e-6,
    "joystick.yaw_sigma": 1e-6,
    "joystick.height_sigma": 1e-9,
    "cartpole.episode_s": 0.1,
}
AT_MOST = {
    "seed": 2**31 - 1,
    "ppo.gamma": 1.0,
    "ppo.weight_averaging": 1.0,
    "ppo.gae_lambda": 1.0,
    "joystick.zero_command": 1.0,
    **{f"joystick.{stretch}.zero_command": 1.0 for stretch in STRETCHES},
    "joystick.swing_fraction": 0.95,
    "joystick.standing_phase": 1.0,
}


def to_dict(config: Config) -> dict[str, Any]:
    """The config as plain nested dictionaries, lists and numbers."""
    plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(config)))
    return plain


def from_dict(values: Mapping[str, Any], base: Config, source: str) -> Config:
    """`base` with the values of a nested dictionary in place of its own.

    Raises:
      UserError: an unknown key or a value of another kind; names `source`.
    """
    return typing.cast(Config, _overlay(base, values, "", source))


def load_file(path: Path) -> dict[str, Any]:
    """Settings from a JSON or YAML file, or from a run's config.json.

    Raises:
      UserError: no such file, or its text is not a mapping.
    """
    try:
        text = path.expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
        raise UserError(f"--config {path} cannot be read: {reason}") from error
    try:
        if path.suffix == ".json":
            values = json.loads(text)
        else:
            import yaml

            values = yaml.safe_load(text)
    except Exception as error:  # both parsers have many of their own
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
    for key, allowed in CHOICES.items():
        if (got := value_at(config, key)) not in allowed:
            raise unknown(key.replace(".", " "), str(got), allowed)
    for key, bound in AT_LEAST.items():
        if not (got := value_at(config, key)) >= bound:
            raise UserError(f"{flag(key)} must be at least {bound}, got {got}")
    for key, bound in AT_MOST.items():
        if not 0 <= (got := value_at(config, key)) <= bound:
            raise UserError(f"{flag(key)} must be from 0 to {bound}, got {got}")
    _check_task(config)
    _check_ranges(config)
    if config.time_limit:
        parse_duration(config.time_limit)
    parse_early_stop(config.early_stop)
    parse_memory(config.memory_limit)
    for name in ("policy", "value"):
        widths = getattr(config.net, name)
        if not widths or min(widths) < 1:
            raise UserError(f"--net.{name} needs widths of at least 1, got {widths}")
    return dataclasses.replace(
        config,
        num_envs=parse_num_envs(config.num_envs),
        mem_fraction=parse_fraction(config.mem_fraction),
    )


def flag(key: str) -> str:
    """`ppo.max_grad_norm` as it is typed: --ppo.max-grad-norm."""
    return "--" + key.replace("_", "-")


def value_at(config: Any, key: str) -> Any:
    """The field of a dotted key."""
    for name in key.split("."):
        config = getattr(config, name)
    return config


def _check_task(config: Config) -> None:
    robot = get_robot(config.robot)
    name = robot.task if config.task == "auto" else config.task
    if name not in task_names():
        raise unknown("task", name, ("auto", *task_names()))
    if (name == "joystick" and not robot.feet) or (name == "cartpole" and robot.feet):
        raise UserError(f"the {name} task is not for robot {robot.name}: use --task {robot.task}")


def _check_ranges(config: Config) -> None:
    """Every pair of numbers is a range, low first; every number is finite."""
    for part in (*_GROUPS, *(f"joystick.{stretch}" for stretch in STRETCHES)):
        group = value_at(config, part)
        for field in dataclasses.fields(group):
            got, name = getattr(group, field.name), flag(f"{part}.{field.name}")
            numbers = got if isinstance(got, tuple) else (got,)
            if any(isinstance(x, float) and not math.isfinite(x) for x in numbers):
                raise UserError(f"{name} must be a finite number, got {got}")
            if field.type == "tuple[float, float]" and got[0] > got[1]:
                raise UserError(f"{name} must be a range, low first, got {got[0]} {got[1]}")
    for key in _ABOVE_ZERO:
        low, high = value_at(config, key)
        if low <= 0.0:
            raise UserError(f"{flag(key)} must be above 0, got {low} {high}")
    _check_order(config.joystick)
    if config.ppo.lr_min > config.ppo.lr_max:
        low, high = config.ppo.lr_min, config.ppo.lr_max
        raise UserError(f"--ppo.lr-min {low} must not be above --ppo.lr-max {high}")
    for field in dataclasses.fields(JoystickReward):
        weight = getattr(config.joystick.reward, field.name)
        if not math.isfinite(weight):
            raise UserError(f"{flag('joystick.reward.' + field.name)} must be finite, got {weight}")


_GROUPS = ("joystick", "cartpole", "ppo", "net")
_ABOVE_ZERO = (
    "joystick.joint_friction",
    "joystick.friction",
    "joystick.link_mass",
    "joystick.armature",
    "joystick.resample_s",
    "cartpole.pole_mass",
)


def _check_order(joystick: JoystickConfig) -> None:
    """No stretch of a run begins before the one that it follows."""
    begins = [(name, getattr(joystick, name).iteration) for name in STRETCHES]
    for (before, first), (after, then) in pairwise(x for x in begins if x[1]):
        if then < first:
            raise UserError(
                f"--joystick.{after}.iteration {then} must not be below "
                f"--joystick.{before}.iteration {first}"
            )


def _overlay(target: Any, values: Mapping[str, Any], prefix: str, source: str) -> Any:
    hints = typing.get_type_hints(type(target))
    changes = {}
    for name, value in values.items():
        if name not in hints:
            raise UserError(
                f'{source}: unknown setting "{prefix}{name}"{suggest(str(name), list(hints))}'
            )
        current = getattr(target, name)
        if dataclasses.is_dataclass(current):
            if not isinstance(value, Mapping):
                raise UserError(f'{source}: "{prefix}{name}" must hold settings, got {value!r}')
            changes[name] = _overlay(current, value, f"{prefix}{name}.", source)
        else:
            changes[name] = _convert(hints[name], value, f"{prefix}{name}", source)
    return dataclasses.replace(target, **changes)


def _convert(hint: Any, value: Any, key: str, source: str) -> Any:
    """A JSON or YAML value as the field's type."""
    wanted = typing.get_args(hint) if hint not in (int, float, str, bool) else (hint,)
    if typing.get_origin(hint) is tuple:
        inner = wanted[0]
        fixed = None if len(wanted) == 2 and wanted[1] is Ellipsis else len(wanted)
        if isinstance(value, list | tuple) and (fixed is None or len(value) == fixed):
            return tuple(_convert(inner, item, key, source) for item in value)
        size = "numbers" if fixed is None else f"{fixed} numbers"
        raise UserError(f'{source}: "{key}" must be a list of {size}, got {value!r}')
    if bool in wanted and isinstance(value, bool):
        return value
    if not isinstance(value, bool):
        if int in wanted and isinstance(value, int):
            return value
        if float in wanted and isinstance(value, int | float):
            return float(value)
        if str in wanted and isinstance(value, str):
            return value
    names = " or ".join(w.__name__ for w in wanted)
    raise UserError(f'{source}: "{key}" must be {names}, got {value!r}')
