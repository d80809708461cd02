"""What a config leaves to be worked out: its task and its folder."""

from __future__ import annotations

from pathlib import Path

from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import get_robot


def task_name(config: Config) -> str:
    """The config's task; "auto" is the robot's own."""
    return get_robot(config.robot).task if config.task == "auto" else config.task


def run_folder(config: Config) -> Path:
    """The run's folder: as told, or runs/<robot>-<task>-<algo>-<seed>."""
    if config.run_dir:
        return Path(config.run_dir).expanduser()
    return Path("runs") / f"{config.robot}-{task_name(config)}-{config.algo}-{config.seed}"
