"""What follows from a config without loading jax: its task, its folder, its algorithm's needs."""

from __future__ import annotations

from pathlib import Path

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks import task_sizes
from jaxrl_hw.types import Needs, Sizes


def task_name(config: Config) -> str:
    """The config's task; "auto" is the robot's own."""
    return get_robot(config.robot).task if config.task == "auto" else config.task


def algorithm_needs(config: Config) -> Needs:
    """What the config's algorithm needs of memory and of the batch.

    Raises:
      UserError: unknown algorithm.
    """
    entry, robot = algorithm_entry(config.algo), get_robot(config.robot)
    obs, critic, _ = task_sizes(task_name(config), robot)
    sizes = Sizes(obs, critic, len(robot.action_scale), robot.mirror is not None)
    return entry.needs(getattr(config, entry.name), config.net, sizes)


def run_folder(config: Config) -> Path:
    """The run's folder: as told, or runs/<robot>-<task>-<algo>-<seed>."""
    if config.run_dir:
        return Path(config.run_dir).expanduser()
    return Path("runs") / f"{config.robot}-{task_name(config)}-{config.algo}-{config.seed}"
