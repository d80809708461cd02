"""Train the runs of a manifest, one after the other, and write a report on all of them.

    python -m jaxrl_hw.experiment examples/mini.yaml

A manifest is a YAML file with lists of robots, algorithms and seeds, and with settings:
`docs/reports.md` describes it. The same command, run again, continues: runs that are done are left
alone. What fails is named at the end, and the others are trained all the same.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, FAILED, STOPPED, run_command
from jaxrl_hw.cli.experiment.cells import Cells, Outcome
from jaxrl_hw.cli.experiment.manifest import read_manifest
from jaxrl_hw.cli.report.command import ReportRequest, write_run_report
from jaxrl_hw.envs.robots import load_robot


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: every run is done; 75: one was stopped, run the same command again; 2: bad
    input, nothing is trained; 1: a run failed."""
    return run_command(lambda: _run(_parse(sys.argv[1:] if argv is None else argv)))


def _run(args: Namespace) -> int:
    for name in args.robot:
        load_robot(name)
    planned = read_manifest(args.manifest)
    folder: Path = args.out or Path("runs") / args.manifest.stem
    cells = Cells(folder, planned, lambda text: print(text, flush=True))
    if args.dry_run:
        print(*(cells.run_folder(cell.name) for cell in planned), sep="\n")
        return DONE
    outcomes = cells.train()
    _report(cells, outcomes, args.manifest.stem)
    return _verdict(outcomes)


def _report(cells: Cells, outcomes: Sequence[Outcome], name: str) -> None:
    """One report on every run that has begun."""
    begun = [cells.run_folder(x.name) for x in outcomes if cells.run_folder(x.name).is_dir()]
    if not begun:
        print("no report: no run has begun")
        return
    begun.sort(key=lambda run: not RunDir(run).metrics_jsonl.exists())  # the first one in detail
    table = [outcome._asdict() for outcome in outcomes]
    asked = ReportRequest(begun[0], begun[1:], cells.folder, name, table)
    print(f"written: {write_run_report(asked)}")


def _verdict(outcomes: Sequence[Outcome]) -> int:
    by = {status: [x.name for x in outcomes if x.status == status] for status in _STATUSES}
    parts = (f"{len(names)} {status}" for status, names in by.items() if names)
    print(f"{len(outcomes)} runs: {', '.join(parts)}")
    if by["failed"]:
        return FAILED
    return STOPPED if by["stopped"] or by["waiting"] else DONE


_STATUSES = ("done", "stopped", "waiting", "failed")


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.experiment", description=__doc__)
    which = parser.add_argument_group("which experiment")
    which.add_argument("manifest", type=_path, metavar="FILE.yaml", help="the manifest")
    about = "imports the module of a robot of your own; may be given again (default: none)"
    which.add_argument("--robot", action="append", default=[], metavar="NAME", help=about)
    output = parser.add_argument_group("output")
    about = "folder of its runs and its report (default: runs/FILE)"
    output.add_argument("--out", type=_path, metavar="DIR", help=about)
    about = "print the folders of the runs, and train nothing (default: train)"
    output.add_argument("--dry-run", action="store_true", help=about)
    return parser.parse(argv)


def _path(text: str) -> Path:
    return Path(text).expanduser()
