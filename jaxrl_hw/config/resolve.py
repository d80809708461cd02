"""What follows from a config without loading jax: its robot, task, folder, algorithm's needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from jaxrl_hw.algos.registry import AlgorithmEntry, algorithm_entry
from jaxrl_hw.config.fields import with_values
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import RobotSpec, get_robot, robot_entry
from jaxrl_hw.envs.tasks import task_entry, task_sizes
from jaxrl_hw.types import Needs, Sizes


def task_name(config: Config) -> str:
    """The config's task; "auto" is the robot's own."""
    return get_robot(config.robot).task if config.task == "auto" else config.task


def robot_spec(config: Config) -> RobotSpec:
    """The config's robot with the config's gains, as the robot's and the task's settings make it.

    Raises:
      UserError: unknown robot or task, or a set of gains that the robot does not have.
    """
    entry = robot_entry(config.robot)
    spec = entry.spec
    if entry.settings is not None:
        spec = entry.configure(getattr(config, spec.name, None) or entry.settings(), spec)
    spec = spec.with_gains(config.gains)
    return task_entry(task_name(config)).configure(task_settings(config), spec)


def task_settings(config: Config) -> Any:
    """The settings of the config's task; the whole config where it has no settings class."""
    entry = task_entry(task_name(config))
    if entry.settings is None:
        return config
    return getattr(config, entry.name, None) or entry.settings()


def stage_settings(config: Config) -> tuple[tuple[int, Any], ...]:
    """The task's settings in every stage: (0, those at the start), (env step, those from there on).

    As many as the curriculum has stages, and one; stages add up.
    """
    found = [(0, task_settings(config))]
    for stage in config.curriculum:
        config = with_values(config, stage.settings)
        found.append((stage.env_steps, task_settings(config)))
    return tuple(found)


def algorithm_needs(config: Config) -> Needs:
    """What the config's algorithm needs of memory and of the batch.

    Raises:
      UserError: unknown algorithm.
    """
    entry, robot = algorithm_entry(config.algo), get_robot(config.robot)
    obs, critic, _ = task_sizes(task_name(config), robot, task_settings(config))
    joints, actions = len(robot.action_scale), discrete_count(config)
    sizes = Sizes(obs, critic, joints, robot.mirror is not None, actions)
    return entry.needs(getattr(config, entry.name), config.net, sizes)


def algorithm_why(config: Config, platform: str) -> str:
    """What the plan says of the algorithm's learner (`AlgorithmEntry.why`); may be empty."""
    entry = algorithm_entry(config.algo)
    return entry.why(getattr(config, entry.name), platform)


def discrete_count(config: Config) -> int:
    """How many discrete actions there are; 0 where they are continuous."""
    return config.discrete_actions and config.discrete_actions ** len(
        get_robot(config.robot).action_scale
    )


def state_bytes(config: Config) -> tuple[int, int]:
    """Bytes of one environment's state, as float32 numbers: by its task's `sizes`, and beside."""
    robot, task = robot_spec(config), task_name(config)
    stages = [settings for _, settings in stage_settings(config)]
    sizes = task_sizes(task, robot, stages[0])
    return 4 * sizes[2], 4 * task_entry(task).more_numbers(stages, robot)


def sized(config: Config, num_envs: int, platform: str = "cpu") -> Config:
    """The config with all that its algorithm makes of a number of environments and the kind of
    device, such as the unroll; what is given already stays."""
    entry = algorithm_entry(config.algo)
    settings = entry.sized(getattr(config, entry.name), num_envs, platform)
    return replace(config, **{entry.name: settings})


def usual_unroll(config: Config) -> int:
    """The unroll that suits the config's number of environments, whatever the config's own is."""
    entry, number = algorithm_entry(config.algo), int(config.num_envs)
    usual = entry.sized(entry.settings(), number, "cpu")
    return algorithm_needs(replace(config, **{entry.name: usual})).unroll


def with_settled(config: Config, saved: Config) -> Config:
    """The config with what a run has made of its number of environments, where it names nothing.

    saved: the run's settings.
    """
    entry = algorithm_entry(config.algo)
    now, before = getattr(config, entry.name), getattr(saved, entry.name)
    open_ones = (f.name for f in fields(now) if not _is_given(entry, now, f.name))
    settled = replace(now, **{name: getattr(before, name) for name in open_ones})
    return replace(config, **{entry.name: settled})


def _is_given(entry: AlgorithmEntry, settings: Any, name: str) -> bool:
    return bool(getattr(entry.sized(settings, 1, "cpu"), name) == getattr(settings, name))


def run_folder(config: Config) -> Path:
    """The run's folder: `config.run_dir`, or runs/<robot>-<task>-<algo>-<seed>,
    or runs/<library>-<environment>-<algo>-<seed>."""
    if config.run_dir:
        return Path(config.run_dir).expanduser()
    algo = algorithm_entry(config.algo).name
    trained = f"{get_robot(config.robot).name}-{task_name(config)}"
    if config.env:
        trained = config.env.replace(":", "-")
    return Path("runs") / f"{trained}-{algo}-{config.seed}"


def seed_folders(config: Config, seeds: Sequence[int]) -> list[Path]:
    """The folders of the runs that several seeds are, all in one folder: that is `config.run_dir`,
    or the first one's by default with the last seed at its end."""
    folder = run_folder(replace(config, seed=seeds[0]))
    if not config.run_dir:
        folder = folder.with_name(f"{folder.name}-{seeds[-1]}")
    return [folder / f"seed-{seed}" for seed in seeds]


def of_seed(config: Config, seed: int, folder: Path) -> Config:
    """The config of one of several seeds, whose folder is from `seed_folders`."""
    mirror = str(Path(config.mirror) / folder.parent.name) if config.mirror else ""
    return replace(config, seed=seed, run_dir=str(folder), mirror=mirror)
