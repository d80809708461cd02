"""Whole configurations by robot, task, algorithm and preset: the robot's over the defaults."""

from __future__ import annotations

from dataclasses import fields, make_dataclass
from functools import cache

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.config import validation
from jaxrl_hw.config.fields import settings_of
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import is_environment, robot_entry
from jaxrl_hw.envs.tasks import task_entry
from jaxrl_hw.errors import UserError, unknown
from jaxrl_hw.hardware import profiles
from jaxrl_hw.hardware.detect import Hardware, detect
from jaxrl_hw.types import setting

AUTO = "auto"
PRESETS = tuple(name for name in settings_of(Config)["preset"].choices if name != AUTO)


def config_class(robot: str, task: str = "auto", algo: str = "ppo") -> type[Config]:
    """The class of a config for a robot, a task and an algorithm: `Config`, or a subclass with the
    groups that they bring along.

    Raises:
      UserError: unknown robot, task or algorithm, or two groups of one name.
    """
    entry, method = robot_entry(robot), algorithm_entry(algo)
    own = task_entry(entry.spec.task if task == "auto" else task)
    groups = [(method.name, method.settings), (own.name, own.settings)]
    groups.append((entry.spec.name, entry.settings))
    known = {field.name for field in fields(Config)}
    more = tuple((name, kind) for name, kind in groups if kind and name not in known)
    if entry.settings and (entry.spec.name in known or len(dict(more)) < len(more)):
        raise UserError(
            f'the settings of robot "{entry.spec.name}" need a group name of their own: give the '
            f"robot another name"
        )
    return _with_groups(more)


@cache
def _with_groups(groups: tuple[tuple[str, type], ...]) -> type[Config]:
    if not groups:
        return Config
    more = [(name, kind, setting(kind)) for name, kind in groups]
    made = make_dataclass("Config", more, bases=(Config,), frozen=True)
    made.__module__, made.__doc__ = __name__, Config.__doc__
    return made


def preset_config(
    robot: str = "g1",
    preset: str = "optimized",
    task: str = "auto",
    algo: str = "ppo",
    env: str = "",
) -> Config:
    """The configuration of a preset for a robot, or for another library's environment.

    preset: auto is the one that suits the device that is here.

    Raises:
      UserError: unknown robot, environment, task or preset, or its library is not installed.
    """
    if preset == AUTO:
        preset = suiting(detect())
    if preset not in PRESETS:
        raise unknown("preset", preset, (*PRESETS, AUTO))
    robot = env or robot
    env = robot if is_environment(robot) else ""
    entry = robot_entry(robot)
    config = config_class(robot, task, algo)(env=env, robot=robot, task=task, algo=algo)
    method = algorithm_entry(algo).name
    for layer in ("all", preset, method, f"{method}, {preset}"):
        source = f"{layer} preset of robot {robot}"
        config = validation.from_dict(entry.presets.get(layer, {}), config, source)
    return validation.from_dict({"preset": preset}, config, "preset")


def suiting(hardware: Hardware) -> str:
    """The preset that suits a device."""
    return profiles.of(hardware.platform, hardware.name, hardware.memory_total).preset
