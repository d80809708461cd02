"""Check this installation: python -m jaxrl_hw.doctor

Devices, versions, memory, environment variables, both physics engines, a short training, rendering
and the disk: one row each with what was measured, and what to do where something is amiss. Takes
less than a minute on two cores; nothing that it writes stays behind.

pass    works
warn    training works, but not as well as it could, or something beside it does not
fail    training does not work, or its results would be wrong
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, FAILED, run_command
from jaxrl_hw.cli.doctor import report
from jaxrl_hw.cli.doctor.checks import examine
from jaxrl_hw.cli.doctor.results import FAIL, Finding, worst
from jaxrl_hw.errors import UserError

FOLDER = "runs"


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: nothing failed; 1: something did; 2: bad arguments."""

    def body() -> int:
        asked = _parse(sys.argv[1:] if argv is None else argv)
        began = time.monotonic()
        # data alone on stdout: what is under way is told on stderr then
        voice = _voice(sys.stderr if asked.json else sys.stdout)
        findings = examine(Path(asked.run_dir).expanduser(), voice.compiling)
        seconds = time.monotonic() - began
        if asked.json:
            print(json.dumps(_data(findings, seconds), indent=2))
        else:
            voice.show(findings, seconds)
        return FAILED if worst(findings) == FAIL else DONE

    return run_command(body)


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.doctor", description=__doc__)
    parser.add_argument(
        "--run-dir",
        default=FOLDER,
        metavar="DIR",
        help=f"folder whose disk is tried (default: {FOLDER}); it is left as it is",
    )
    parser.add_argument("--json", action="store_true", help="the same as data")
    asked = parser.parse(argv)
    folder = Path(asked.run_dir).expanduser()
    if not asked.run_dir.strip() or folder.is_file():
        got = f"{folder} is a file" if asked.run_dir.strip() else "got nothing"
        raise UserError(f"--run-dir must be a folder, but {got}; try --run-dir {FOLDER}")
    return asked


def _data(findings: list[Finding], seconds: float) -> dict[str, Any]:
    return {
        "status": worst(findings),
        "counts": report.counts(findings),
        "seconds": round(seconds, 1),
        "rows": [found.to_dict() for found in findings],
    }


def _voice(stream: IO[str]) -> _Rich | _Plain:
    try:
        return _Rich(stream)
    except ImportError:  # an installation without rich is one to be checked too
        return _Plain(stream)


class _Rich:
    """Speaks as the trainer does."""

    def __init__(self, stream: IO[str]) -> None:
        from jaxrl_hw.loggers.console import Console
        from jaxrl_hw.loggers.terminal import can_redraw, make_console

        self._printer = make_console(stream, can_redraw(stream), None)
        self.compiling = Console(stream).compiling

    def show(self, findings: list[Finding], seconds: float) -> None:
        """Print the table and the line under it."""
        self._printer.print()
        self._printer.print(report.table(findings))
        self._printer.print()
        text = report.summary(findings, seconds)
        self._printer.print(text, style="bold", markup=False, soft_wrap=True)


class _Plain:
    """Does without rich."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    @contextlib.contextmanager
    def compiling(self, label: str) -> Iterator[None]:
        """Say what is under way."""
        print(f"{label} ...", file=self._stream, flush=True)
        yield

    def show(self, findings: list[Finding], seconds: float) -> None:
        """Print a line for each finding and one that sums up."""
        for line in (*report.lines(findings), report.summary(findings, seconds)):
            print(line, file=self._stream)


if __name__ == "__main__":
    sys.exit(main())
