"""Opens the policy that a command line names: of a run, of a file, or of the zoo."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.arguments import check_source, run_folder
from jaxrl_hw.config.migrations import since_trained
from jaxrl_hw.config.resolve import task_name
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks import task_sizes
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import xla
from jaxrl_hw.policies.sources import config_of, name_of, open_policy

if TYPE_CHECKING:
    from jaxrl_hw.training.run import Run


@dataclass(frozen=True)
class OpenedPolicy:
    """A policy ready to be driven (a `TrainedPolicy`), and its name."""

    config: Config
    policy: Any = field(repr=False)
    iteration: int
    name: str
    """The run's folder, or the policy as the user named it."""
    film: Path
    """Default path of a film."""
    note: str = ""
    """What has changed in the simulation since it was trained."""


def open_trained(args: Namespace) -> OpenedPolicy:
    """The policy that a command line names, on the CPU.

    Raises:
      UserError: see `check_source`; nothing of that name, or a policy for another robot.
      RunError: every checkpoint of the run is damaged.
    """
    source = check_source(args)
    if args.policy is None:
        run = open_run(source, args.iteration)
        film = run.folder / "videos" / f"{run.iteration}.mp4"
        opened = OpenedPolicy(run.config, run.policy, run.iteration, str(run.folder), film)
        trained_with = RunDir(run.folder).read_config() or {}
    else:
        policy, film = open_policy(source), Path(f"{name_of(source)}.mp4")
        config = config_of(policy, source)
        use_cpu()
        opened = OpenedPolicy(config, policy, int(policy.meta["iteration"]), source, film)
        trained_with = policy.meta["config"]
    check_robot(args, opened.config)
    return replace(opened, note=since_trained(trained_with, task_name(opened.config)))


def print_note(name: str, note: str) -> None:
    """Tell what has changed since a policy was trained, if anything; on stderr, as stdout may be
    JSON."""
    if note:
        print(f"note: {name}: {note}", file=sys.stderr)


def open_run(folder: str, iteration: int | None) -> Run:
    """Load a run on the CPU.

    Raises:
      UserError: no run there, no checkpoint yet, or none of that iteration.
      RunError: every checkpoint is damaged.
    """
    path = run_folder(folder)
    use_cpu()
    from jaxrl_hw.training.run import load_run

    xla.apply_pending()
    return load_run(path, iteration, metrics=False)


def use_cpu() -> None:
    """Leave an accelerator alone: a training may be using all of it, and stepping a handful of
    robots is quicker on a CPU. JAX_PLATFORMS in the environment overrules this."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    xla.configure(fraction=None, cache_dir=None, platform="cpu", host_callback=True)


def check_robot(args: Namespace, config: Config) -> None:
    """Raises UserError where --robot names another robot than the policy was trained for."""
    if args.robot is None or get_robot(args.robot) == get_robot(config.robot):
        return
    asked, trained = get_robot(args.robot), get_robot(config.robot)
    sizes = ", ".join(
        f"{robot.name} has {task_sizes(task, robot)[0]} observations and "
        f"{len(robot.action_scale)} actions"
        for robot, task in ((asked, asked.task), (trained, task_name(config)))
    )
    raise UserError(
        f"--robot {args.robot}, but {args.run_dir or args.policy} is a policy for {config.robot}: "
        f"{sizes}; leave --robot out, or name a policy for {args.robot}"
    )
