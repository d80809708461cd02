"""Whole configurations by robot and by preset: the robot's presets over the defaults."""

from __future__ import annotations

from jaxrl_hw.config import validation
from jaxrl_hw.config.fields import settings_of
from jaxrl_hw.config.groups import config_class
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import robot_entry
from jaxrl_hw.errors import unknown

PRESETS = settings_of(Config)["preset"].choices


def preset_config(
    robot: str = "g1", preset: str = "optimized", task: str = "auto", algo: str = "ppo"
) -> Config:
    """The configuration of a preset for a robot.

    Raises:
      UserError: unknown robot, task or preset.
    """
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    entry = robot_entry(robot)
    config = config_class(robot, task, algo)(robot=robot, task=task, algo=algo)
    for layer in ("all", preset):
        source = f"{layer} preset of robot {robot}"
        config = validation.from_dict(entry.presets.get(layer, {}), config, source)
    return validation.from_dict({"preset": preset}, config, "preset")
