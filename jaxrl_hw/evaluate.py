"""How well a policy follows commands: python -m jaxrl_hw.evaluate --run-dir runs/g1-joystick-ppo-0

Ten fixed commands, each followed by its own robot from a standing start, without noise and without
pushes (`--push` adds those). The first 2 s, in which the robot gets going, do not count. Physics is
stricter than in training: 2 ms steps, and PD torques worked out anew at each of them. `--suite
robust` repeats it with pushes, other floors and loads, late actions and sensor noise.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.atomic import write_json
from jaxrl_hw.cli.arguments import (
    OneLineParser,
    add_run_arguments,
    check_between,
    check_source,
    number,
)
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.trained_policy import open_trained
from jaxrl_hw.errors import UserError, unknown
from jaxrl_hw.evaluation.trained import Trained
from jaxrl_hw.loggers.plain import plain

CARTPOLE_STARTS = 16
SUITES = ("commands", "robust")

_UNITS = {
    "velocity_error": "m/s",
    "yaw_error": "rad/s",
    "falls": "",
    "power": "W",
    "drift": "m",
    "lift": "m",
    "return": "",
    "upright_share": "",
    "upright_at_end": "",
}


@dataclass(frozen=True)
class Evaluation:
    """Figures by command (or by start), and their mean."""

    robot: str
    task: str
    iteration: int
    seconds: float
    timestep: float
    """Of the physics it was measured on, s."""
    seed: int
    push: float
    """m/s, every 2.5 s; 0 for none."""
    rows: list[dict[str, Any]]
    """Per command: command, velocity_error (m/s), yaw_error (rad/s), falls, power (W), and where it
    is to stand drift (m) and lift (m).
    Cartpole, per start: return, upright_share, upright_at_end (of the last tenth of the time)."""
    mean: dict[str, float]
    """Of every figure over all rows."""
    cases: list[dict[str, Any]] = field(default_factory=list)
    """The robust suite, per case: name, velocity_error (m/s), yaw_error (rad/s), falls (robots that
    fell), trials (robots), power (W)."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return dict(plain(vars(self)))


def evaluate(
    run: Trained, seconds: float = 10.0, seed: int = 0, push: float = 0.0, suite: str = "commands"
) -> Evaluation:
    """Drive a run's policy under ten commands and measure it.

    Args:
      run: from `fit`, `load_run` or `open_trained`.
      seconds: simulated time per command; the first `SETTLE_S` do not count.
      seed: of gait phases, of cartpole's starts and of pushes.
      push: m/s, size of a sudden change of velocity every 2.5 s in a random direction.
      suite: "commands", or "robust" for the harder worlds of `jaxrl_hw.evaluation.suites` as well.

    Raises:
      UserError: seconds leave nothing to measure, an unknown suite, or pushes or a suite for a task
        that has none.
    """
    from jaxrl_hw.envs.robots import get_robot
    from jaxrl_hw.evaluation.drive import drive
    from jaxrl_hw.evaluation.scoring import (
        SETTLE_S,
        balancing_rows,
        commands_for,
        means,
        walking_rows,
    )
    from jaxrl_hw.evaluation.suites import case_row, drive_suite
    from jaxrl_hw.evaluation.worlds import Conditions

    robot = get_robot(run.config.robot)
    task = robot.task if run.config.task == "auto" else run.config.task
    check_between("--seconds", seconds, SETTLE_S + 1.0 if task == "joystick" else 1.0, 600.0)
    check_between("--push", push, 0.0, 5.0)
    if suite not in SUITES:
        raise unknown("suite", suite, SUITES)
    if (push or suite == "robust") and task != "joystick":
        flag = "--push" if push else "--suite robust"
        raise UserError(f"{flag} is for robots that walk, not for the {task} task")
    if push and suite == "robust":
        raise UserError("--suite robust has pushes of its own: leave out --push")
    cases: list[dict[str, Any]] = []
    if suite == "robust":
        driven = drive_suite(run.config, run.policy, seconds, seed)
        cases = [case_row(case, seen) for case, seen in driven]
        seen = driven[0][1]
    elif task == "joystick":
        world = Conditions(push_speed=push)
        seen = drive(run.config, run.policy, commands_for(robot), seconds, seed, world)
    else:
        seen = drive(run.config, run.policy, ((0.0, 0.0, 0.0),) * CARTPOLE_STARTS, seconds, seed)
    rows = walking_rows(seen) if task == "joystick" else balancing_rows(seen)
    mean = means(rows)
    return Evaluation(
        robot.name, task, run.iteration, seconds, seen.timestep, seed, push, rows, mean, cases
    )


def suite_table(found: Evaluation) -> Any:
    """The robust suite as a rich table: a row per case."""
    from rich.table import Table

    title = f"{found.robot}: ten commands in harder worlds, pushes every 2.5 s"
    shown = Table(title=title, title_justify="left", title_style="bold")
    shown.add_column("case", no_wrap=True)
    for name in ("velocity error m/s", "yaw error rad/s", "fell", "power W"):
        shown.add_column(name, justify="right")
    for row in found.cases:
        fell = f"{row['falls']} of {row['trials']}"
        errors = (f"{row['velocity_error']:.3f}", f"{row['yaw_error']:.3f}")
        shown.add_row(row["name"], *errors, fell, f"{row['power']:.1f}")
    return shown


def table(found: Evaluation) -> Any:
    """The figures as a rich table: a row per command, and the mean."""
    from rich.table import Table

    told = f"push {found.push:g} m/s every 2.5 s" if found.push else "no noise, no pushes"
    title = f"{found.robot}, iteration {found.iteration:,}: {found.seconds:g} s, {told}"
    shown = Table(title=title, title_justify="left", title_style="bold")
    walking = found.task == "joystick"
    first = "command (m/s, m/s, rad/s)" if walking else "start"
    shown.add_column(first, justify="right", no_wrap=True)
    for name in found.mean:
        unit = f" {_UNITS[name]}" if _UNITS[name] else ""
        shown.add_column(name.replace("_", " ") + unit, justify="right")
    for i, row in enumerate(found.rows):
        last = i == len(found.rows) - 1
        name = " ".join(f"{x:5.2f}" for x in row["command"]) if walking else str(i + 1)
        cells = (_cell(k, row[k]) if k in row else "" for k in found.mean)
        shown.add_row(name, *cells, end_section=last)
    shown.add_row("mean", *(_cell(k, v) for k, v in found.mean.items()), style="bold")
    return shown


def _cell(name: str, value: float) -> str:
    if name == "falls":
        return f"{value:g}"
    return f"{value:.1f}" if name in ("power", "return") else f"{value:.3f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: measured, however badly; 2: bad input; 1: failure."""

    def body() -> int:
        asked = _parse(sys.argv[1:] if argv is None else argv)
        if asked.json not in (None, "-"):
            _check_writable(Path(asked.json).expanduser())
        if asked.json != "-":
            print(f"loading {check_source(asked)}", flush=True)
        run = open_trained(asked)
        found = evaluate(run, asked.seconds, asked.seed, asked.push, asked.suite)
        if asked.json == "-":
            print(json.dumps(found.to_dict(), indent=2))
            return DONE
        from jaxrl_hw.loggers.terminal import can_redraw, make_console

        console = make_console(sys.stdout, can_redraw(sys.stdout), None)
        console.print(table(found))
        if found.cases:
            console.print(suite_table(found))
        if asked.json is not None:
            write_json(Path(asked.json).expanduser(), found.to_dict())
            console.print(f"written: {asked.json}", soft_wrap=True)
        return DONE

    return run_command(body)


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.evaluate", description=__doc__)
    add_run_arguments(parser, seconds=10.0)
    parser.add_argument(
        "--push",
        type=number,
        default=0.0,
        metavar="SPEED",
        help="m/s: push the robot every 2.5 s in a random direction",
    )
    parser.add_argument(
        "--suite",
        default="commands",
        metavar="|".join(SUITES),
        help="robust: also with pushes, other floors and loads, late actions, noise",
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="the same as data, in place of the table; with FILE beside it, written there",
    )
    asked = parser.parse(argv)
    check_source(asked)
    check_between("--seconds", asked.seconds, 1.0, 600.0)
    check_between("--push", asked.push, 0.0, 5.0)
    return asked


def _check_writable(path: Path) -> None:
    if path.is_dir() or not path.parent.is_dir():
        why = "is a folder" if path.is_dir() else "lies in a folder that does not exist"
        raise UserError(f"--json {path} {why}; name a file, or none for the terminal")


if __name__ == "__main__":
    sys.exit(main())
