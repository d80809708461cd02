"""Write a report of a run.

    python -m jaxrl_hw.report --run-dir runs/g1-joystick-ppo-0

Into the run's folder, or --out DIR: report.html (one file, which needs no network), report.md,
summary.json, metrics.csv and figures/ as PNG and PDF. --compare adds other runs: those of the same
settings are seeds of one group, and a table says which groups differ.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxrl_hw.algos.registry import load_algorithm
from jaxrl_hw.checkpointing.run_dir import check_run
from jaxrl_hw.cli.arguments import OneLineParser, make_writable, number, whole_number
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.envs.robots import load_robot
from jaxrl_hw.errors import UserError, check_between, unknown
from jaxrl_hw.evaluation.evaluate import SUITES
from jaxrl_hw.evaluation.opengl import choose_backend
from jaxrl_hw.loggers import formats


def main(
    argv: Sequence[str] | None = None, choose_backend: Callable[[], str] = choose_backend
) -> int:
    """Exit code 0: written; 2: bad input; 1: the disk refuses, or an evaluation failed."""

    def body() -> int:
        args = _parse(sys.argv[1:] if argv is None else argv)
        page = write_run_report(_request(args), args, choose_backend)
        print(f"written: {page} ({formats.size(page.stat().st_size)})")
        return DONE

    return run_command(body)


@dataclass(frozen=True)
class ReportRequest:
    """What a report is about."""

    run: Path
    """The run that is shown in detail."""
    others: Sequence[Path]
    """Runs to compare it with."""
    out: Path
    """The report's folder."""
    title: str = ""
    """"" for the run's name."""
    outcomes: Sequence[Mapping[str, Any]] = ()
    """Of an experiment, per run: name, status, log, why."""
    robot: str = ""
    """A robot that `load_robot` has loaded."""


def write_run_report(
    asked: ReportRequest,
    args: Namespace | None = None,
    choose_backend: Callable[[], str] = choose_backend,
) -> Path:
    """Write a report; returns the page's path.

    args: of a command line that may ask for film, replay and evaluation; None for none of them.
    """
    out = make_writable(asked.out, "a report")
    # they load matplotlib and scipy, which a wrong command line does not need
    from jaxrl_hw.cli.report import figures
    from jaxrl_hw.cli.report.comparison import compare
    from jaxrl_hw.cli.report.comparison_figures import comparison_figures
    from jaxrl_hw.cli.report.motion import Motion, show_motion
    from jaxrl_hw.cli.report.page import Report, write_report
    from jaxrl_hw.cli.report.run_record import read_record
    from jaxrl_hw.cli.report.summary import summarize_run

    motion = show_motion(args, out, _say, choose_backend) if args else Motion()
    record = read_record(asked.run, asked.robot, out)
    others = [read_record(folder, asked.robot) for folder in asked.others]
    found = summarize_run(record)
    comparison = compare([record, *others]) if others else None
    sections = {
        "learning": figures.curves(record),
        "evaluations": figures.evaluations(found),
        "comparison": comparison_figures(comparison) if comparison else [],
        "rewards": figures.rewards(record),
        "time": figures.time(found),
        "memory": figures.memory(record, found),
        "metrics": figures.others(record),
    }
    _say(f"drawing {sum(map(len, sections.values()))} figures")
    title = asked.title or record.name
    return write_report(
        Report(title, record, found, sections, comparison, motion, asked.outcomes), out
    )


def _say(text: str) -> None:
    print(text, flush=True)


def _request(args: Namespace) -> ReportRequest:
    return ReportRequest(
        args.run_dir, args.compare, args.out or args.run_dir, robot=args.robot or ""
    )


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.report", description=__doc__)
    which = parser.add_argument_group("which runs")
    which.add_argument("--run-dir", type=_folder, required=True, metavar="DIR", help="the run")
    about = "other runs, to compare with this one"
    which.add_argument(
        "--compare", type=_folder, nargs="+", action="extend", default=[], metavar="DIR", help=about
    )
    about = "imports the module of a robot of your own"
    which.add_argument("--robot", metavar="NAME", help=about)
    about = "imports the module of an algorithm of your own"
    which.add_argument("--algo", metavar="NAME", help=about)
    shown = parser.add_argument_group("what is in it")
    about = "checkpoint that is filmed, replayed and evaluated (default: the newest)"
    shown.add_argument("--iteration", type=whole_number, metavar="K", help=about)
    about = "first evaluate the policy, as `evaluate --suite` does, into evaluation.json"
    shown.add_argument(
        "--evaluate", nargs="?", const="commands", metavar="|".join(SUITES), help=about
    )
    about = "simulated time of film and replay, s (default: 12)"
    shown.add_argument("--seconds", type=number, default=12.0, metavar="S", help=about)
    for name, about in (("film", "make no film"), ("replay", "record no replay")):
        shown.add_argument(f"--no-{name}", dest=name, action="store_false", help=about)
    about = "folder of the report's files (default: the run's)"
    parser.add_argument_group("output").add_argument(
        "--out", type=_folder, metavar="DIR", help=about
    )
    args = parser.parse(argv)
    if args.evaluate is not None and args.evaluate not in SUITES:
        raise unknown("suite", args.evaluate, SUITES)
    check_between("--seconds", args.seconds, 0.2, 600.0)
    if args.robot is not None:
        load_robot(args.robot)
    if args.algo is not None:
        load_algorithm(args.algo)
    for folder in dict.fromkeys([args.run_dir, *args.compare]):
        check_run(folder)
    places = [folder.resolve() for folder in (args.run_dir, *args.compare)]
    twice = [
        folder for folder, at in zip(args.compare, places[1:], strict=True) if places.count(at) > 1
    ]
    if twice:
        raise UserError(f"--compare {twice[0]} names a run that is there already; leave it out")
    args.policy = None  # `open_trained` takes one in place of a run
    return args


def _folder(text: str) -> Path:
    return Path(text).expanduser()
