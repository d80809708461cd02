"""How well a policy follows commands: python -m jaxrl_hw.evaluate --run-dir runs/g1-joystick-ppo-0

Ten fixed commands, each followed by its own robot from a standing start, without noise and without
pushes (`--push` adds those). The first 2 s, in which the robot gets going, do not count.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxrl_hw.commands import DONE, run_command
from jaxrl_hw.errors import UserError
from jaxrl_hw.sessions.atomic import write_json
from jaxrl_hw.telemetry.plain import plain
from jaxrl_hw.watch.loading import OneLineParser, add_run_arguments, check_between, number, open_run

if TYPE_CHECKING:
    from jaxrl_hw.run import Run
    from jaxrl_hw.watch.drive import Recording

COMMANDS = (
    (0.5, 0.0, 0.0),
    (1.0, 0.0, 0.0),
    (-0.5, 0.0, 0.0),
    (0.0, 0.3, 0.0),
    (0.0, -0.3, 0.0),
    (0.0, 0.0, 0.8),
    (0.0, 0.0, -0.8),
    (0.5, 0.2, 0.4),
    (0.8, 0.0, -0.5),
    (0.0, 0.0, 0.0),
)
"""Forward and leftward velocity, m/s, and yaw rate, rad/s, in the base frame."""
SETTLE_S = 2.0
"""Seconds from the start that errors and power leave out."""
CARTPOLE_STARTS = 16

_UNITS = {
    "velocity_error": "m/s",
    "yaw_error": "rad/s",
    "falls": "",
    "power": "W",
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
    """Per command: command, velocity_error (m/s), yaw_error (rad/s), falls, power (W).
    Cartpole, per start: return, upright_share, upright_at_end (of the last tenth of the time)."""
    mean: dict[str, float]
    """Of every figure over all rows."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return dict(plain(vars(self)))


def evaluate(run: Run, seconds: float = 10.0, seed: int = 0, push: float = 0.0) -> Evaluation:
    """Drive a run's policy under `COMMANDS` and measure it.

    Args:
      run: from `fit` or `load_run`.
      seconds: simulated time per command; the first `SETTLE_S` do not count.
      seed: of gait phases, of cartpole's starts and of pushes.
      push: m/s, size of a sudden change of velocity every 2.5 s in a random direction.

    Raises:
      UserError: seconds leave nothing to measure, or pushes for a task that has none.
    """
    from jaxrl_hw.robots import get_robot
    from jaxrl_hw.watch.drive import Conditions, drive

    robot = get_robot(run.config.robot)
    task = robot.task if run.config.task == "auto" else run.config.task
    check_between("--seconds", seconds, SETTLE_S + 1.0 if task == "joystick" else 1.0, 600.0)
    check_between("--push", push, 0.0, 5.0)
    if push and task != "joystick":
        raise UserError(f"--push is for robots that walk, not for the {task} task")
    commands = COMMANDS if task == "joystick" else ((0.0, 0.0, 0.0),) * CARTPOLE_STARTS
    seen = drive(run.config, run.policy, commands, seconds, seed, Conditions(push_speed=push))
    rows = walking_rows(seen) if task == "joystick" else balancing_rows(seen)
    names = [name for name in rows[0] if name != "command"]
    mean = {name: sum(row[name] for row in rows) / len(rows) for name in names}
    return Evaluation(
        robot.name, task, run.iteration, seconds, seen.timestep, seed, push, rows, mean
    )


def walking_rows(seen: Recording) -> list[dict[str, Any]]:
    """Per command: errors in the base frame and power, as means over time after `SETTLE_S`.

    velocity_error is the mean length of (v_xy - commanded v_xy), yaw_error the mean |yaw rate -
    commanded yaw rate|. Falls count from the very start; a robot that fell goes on from standing.
    """
    import numpy as np

    after = round(SETTLE_S / seen.control_dt)
    off = seen.velocity[after:, :, :2] - seen.commands[after:, :, :2]
    velocity_error = np.linalg.norm(off, axis=-1).mean(axis=0)
    yaw_error = np.abs(seen.yaw_rate[after:] - seen.commands[after:, :, 2]).mean(axis=0)
    power = seen.power[after:].mean(axis=0)
    return [
        {
            "command": [round(float(x), 6) for x in seen.commands[0, i]],
            "velocity_error": float(velocity_error[i]),
            "yaw_error": float(yaw_error[i]),
            "falls": int(seen.falls[i]),
            "power": float(power[i]),
        }
        for i in range(seen.commands.shape[1])
    ]


def balancing_rows(seen: Recording) -> list[dict[str, Any]]:
    """Per start of the cartpole: return, and the share of time the pole was upright."""
    import numpy as np

    upright = np.asarray(seen.moments.diagnostics["upright_share"])
    last = max(1, len(upright) // 10)
    returns = np.asarray(seen.moments.reward).sum(axis=0)
    return [
        {
            "return": float(returns[i]),
            "upright_share": float(upright[:, i].mean()),
            "upright_at_end": float(upright[-last:, i].mean()),
        }
        for i in range(upright.shape[1])
    ]


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
        shown.add_row(name, *(_cell(k, row[k]) for k in found.mean), end_section=last)
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
            print(f"loading {asked.run_dir}", flush=True)
        run = open_run(asked.run_dir, asked.iteration)
        found = evaluate(run, asked.seconds, asked.seed, asked.push)
        if asked.json == "-":
            print(json.dumps(found.to_dict(), indent=2))
            return DONE
        from jaxrl_hw.telemetry.terminal import can_redraw, make_console

        console = make_console(sys.stdout, can_redraw(sys.stdout), None)
        console.print(table(found))
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
    parser.add_argument("--json", metavar="FILE", help="also write the figures; - prints them only")
    asked = parser.parse(argv)
    check_between("--seconds", asked.seconds, 1.0, 600.0)
    check_between("--push", asked.push, 0.0, 5.0)
    return asked


def _check_writable(path: Path) -> None:
    if path.is_dir() or not path.parent.is_dir():
        why = "is a folder" if path.is_dir() else "lies in a folder that does not exist"
        raise UserError(f"--json {path} {why}; name a file, or - for the terminal")


if __name__ == "__main__":
    sys.exit(main())
