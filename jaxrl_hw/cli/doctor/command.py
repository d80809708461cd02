"""The body of `jaxrl_hw.doctor`."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, FAILED
from jaxrl_hw.cli.doctor.checks import NAMES, Progress, examine
from jaxrl_hw.cli.doctor.results import FAIL, counts, lines, summary, table, worst
from jaxrl_hw.errors import UserError, unknown

if TYPE_CHECKING:
    from jaxrl_hw.loggers.console import Console

RUNS = "runs"


def doctor(argv: Sequence[str], description: str) -> int:
    """Check this installation and print the rows; 0: none failed, 1: some did."""
    asked = _parse(argv, description)
    began = time.monotonic()
    stream = sys.stderr if asked.json else sys.stdout  # with --json, stdout holds data only
    console = _console(stream)
    progress = console.compiling if console is not None else _plain_progress(stream)
    rows = examine(Path(asked.run_dir).expanduser(), progress, asked.only)
    seconds, status = time.monotonic() - began, worst(rows)
    if asked.json:
        data = {"status": status, "counts": counts(rows), "seconds": round(seconds, 1)}
        print(json.dumps({**data, "rows": [asdict(row) for row in rows]}, indent=2))
    elif console is None:
        print(*lines(rows), summary(rows, seconds), sep="\n")
    else:
        console.message("")
        console.show(table(rows))
        console.message("")
        console.finish(summary(rows, seconds))
    return FAILED if status == FAIL else DONE


def _parse(argv: Sequence[str], description: str) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.doctor", description=description)
    which = parser.add_argument_group("what is checked")
    about = f"run these checks and devices alone (default: all): {', '.join(NAMES)}"
    which.add_argument("--only", nargs="+", default=[], metavar="CHECK", help=about)
    about = f"folder whose disk is tested (default: {RUNS}); nothing in it changes"
    which.add_argument("--run-dir", default=RUNS, metavar="DIR", help=about)
    about = "print the rows as data in place of the table, with times in s"
    parser.add_argument_group("output").add_argument("--json", action="store_true", help=about)
    asked = parser.parse(argv)
    for name in asked.only:
        if name not in NAMES:
            raise unknown("check", name, NAMES)
    folder = Path(asked.run_dir).expanduser()
    if not asked.run_dir.strip() or folder.is_file():
        got = f"{folder} is a file" if asked.run_dir.strip() else 'got ""'
        raise UserError(f"--run-dir must be a folder, but {got}; try --run-dir {RUNS}")
    return asked


def _console(stream: IO[str]) -> Console | None:
    try:
        from jaxrl_hw.loggers.console import Console
    except ImportError:  # the doctor also checks an installation that lacks rich
        return None
    return Console(stream)


def _plain_progress(stream: IO[str]) -> Progress:
    @contextlib.contextmanager
    def progress(label: str) -> Iterator[None]:
        print(f"{label} ...", file=stream, flush=True)
        yield

    return progress
