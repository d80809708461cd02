"""Score how well a policy follows commands.

    python -m jaxrl_hw.evaluate --run-dir runs/g1-joystick-ppo-0

Each of ten fixed commands is followed by its own robot from a standing start, without noise and
without pushes (`--push` adds those). The first 2 s, in which the robot starts to walk, do not
count. Physics is stricter than in training: steps of 2 ms, with PD torques computed in each. The
robust suite (`--suite robust`) repeats this with pushes, other floors and loads, late actions,
sensor noise, other motors, joints and sensors, random commands, a drive by joystick, and another
model of the robot.
"""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from jaxrl_hw.checkpointing.files import write_json
from jaxrl_hw.cli.arguments import OneLineParser, add_run_arguments, check_source, number
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.trained_policy import OpenedPolicy, open_trained, print_note, use_cpu
from jaxrl_hw.errors import UserError, suggest
from jaxrl_hw.evaluation.baselines import BASELINES, Baseline, baseline
from jaxrl_hw.evaluation.evaluate import SUITES, Evaluation, evaluate
from jaxrl_hw.loggers.terminal import can_redraw, make_console, make_table

# short, for tables of 80 columns
_HEADS = {
    "velocity_error": "error m/s",
    "yaw_error": "yaw rad/s",
    "power": "power W",
    "self_contacts": "touch",
    "drift": "drift m",
    "lift": "lift m",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: measured, however badly; 2: bad input; 1: failure."""
    return run_command(lambda: _evaluate(_parse(sys.argv[1:] if argv is None else argv)))


def _evaluate(args: Namespace) -> int:
    out = None if args.json in (None, "-") else Path(args.json).expanduser()
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        why = "is a folder" if out.is_dir() else "lies in a folder that does not exist"
        raise UserError(f"--json {out} {why}; name a file, or none for the terminal")
    if args.json != "-":
        print(f"loading {check_source(args)}", flush=True)
    opened = _opened(args)
    found = evaluate(opened, args.seconds, args.seed, args.push, args.suite)
    if isinstance(opened, OpenedPolicy):
        print_note(opened.name, opened.note)
    if args.json == "-":
        print(json.dumps(found.to_dict(), indent=2))
        return DONE
    console = make_console(sys.stdout, can_redraw(sys.stdout), None)
    console.print(table(found))
    if found.cases:
        console.print(suite_table(found))
    if out is not None:
        write_json(out, found.to_dict())
        console.print(f"written: {out}", soft_wrap=True)
    return DONE


def _opened(args: Namespace) -> OpenedPolicy | Baseline:
    """The policy that the command line names."""
    if args.policy not in BASELINES:
        near = suggest(args.policy or "", BASELINES)
        if near and not Path(args.policy).exists():
            raise UserError(f'no policy "{args.policy}"{near}')
        return open_trained(args)
    if args.robot is None:
        raise UserError(f"--policy {args.policy} is for any robot: add --robot, such as g1")
    use_cpu()
    return baseline(args.policy, args.robot, args.seed)


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.evaluate", description=__doc__)
    driven = add_run_arguments(parser, seconds=10.0, baselines=BASELINES)
    about = "push the robot every 2.5 s in a random direction, m/s (default: 0)"
    driven.add_argument("--push", type=number, default=0.0, metavar="SPEED", help=about)
    about = "robust: also with pushes, other floors, loads, motors and sensors, delays, noise"
    about += " (default: commands)"
    driven.add_argument("--suite", default="commands", metavar="|".join(SUITES), help=about)
    about = "print JSON in place of the table; with FILE, print the table and write JSON there"
    output = parser.add_argument_group("output")
    output.add_argument("--json", nargs="?", const="-", metavar="FILE", help=about)
    args = parser.parse(argv)
    check_source(args)
    return args


def table(found: Evaluation) -> Table:
    """The figures as a rich table: a row per command (or start), and the mean."""
    world = f"push {found.push:g} m/s every 2.5 s" if found.push else "no noise, no pushes"
    title = f"{found.robot}, iteration {found.iteration:,}: {found.seconds:g} s, {world}"
    first = "m/s, m/s, rad/s" if found.task == "joystick" else "start"
    shown = make_table(first, *map(_head, found.mean), title=title, no_wrap=[0])
    for i, row in enumerate(found.rows, 1):
        name = " ".join(f"{x:5.2f}" for x in row["command"]) if "command" in row else str(i)
        cells = (_cell(k, row[k]) if k in row else "" for k in found.mean)
        shown.add_row(name, *cells, end_section=i == len(found.rows))
    shown.add_row("mean", *(_cell(k, v) for k, v in found.mean.items()), style="bold")
    return shown


def suite_table(found: Evaluation) -> Table:
    """The robust suite as a rich table: a row per case."""
    title = f"{found.robot}: in harder worlds, pushes every 2.5 s"
    names = ["velocity_error", "yaw_error", "power", "self_contacts"]
    shown = make_table("case", *map(_head, names), ">fell", title=title, no_wrap=[0, 5])
    for row in found.cases:
        fell = f"{row['falls']} of {row['trials']}"
        shown.add_row(row["name"], *(_cell(name, row[name]) for name in names), fell)
        if "settle_s" in row:
            shown.caption = f"{row['name']}: settles within {row['settle_s']:.2f} s of a change"
    return shown


def _head(name: str) -> str:
    return f">{_HEADS.get(name, name.replace('_', ' '))}"


def _cell(name: str, value: float) -> str:
    if name == "falls":
        return f"{value:g}"
    return f"{value:z.1f}" if name in ("power", "return", "self_contacts") else f"{value:z.3f}"
