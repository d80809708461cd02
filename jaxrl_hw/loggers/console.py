"""What a user sees of a run: the plan, the compilation, the progress, the end.

It goes to the screen in the form that the user chose, and as plain text into the run's folder.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Protocol, cast

from rich.table import Table

from jaxrl_hw.loggers.json_lines import JsonLines
from jaxrl_hw.loggers.kept_text import KeptText
from jaxrl_hw.loggers.notebook import NotebookScreen
from jaxrl_hw.loggers.screen import Screen
from jaxrl_hw.loggers.terminal import in_notebook

_LOG_WIDTH = 100


class Output(Protocol):
    """One place where the output goes; see `Console`."""

    def plan(self, rows: Sequence[tuple[str, str]]) -> None: ...
    def compiling(self, label: str) -> contextlib.AbstractContextManager[None]: ...
    def progress(self, row: Mapping[str, Any]) -> None: ...
    def show(self, table: Table) -> None: ...
    def message(self, text: str) -> None: ...
    def warning(self, text: str) -> None: ...
    def finish(self, summary: str) -> None: ...
    def close(self) -> None: ...


class Console:
    """The trainer's output. All methods may be called from any thread.

    stream: stdout by default; in a notebook then a block that is drawn anew in its cell.
    form: rich, plain or json, as `--log-format` has them.
    quiet: show warnings and the end alone.
    redraw: whether the terminal can draw over lines; None finds out.
    width: columns; None asks the terminal (80 in a pipe).
    clock: seconds that never go back.
    """

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        form: str = "rich",
        quiet: bool = False,
        redraw: bool | None = None,
        width: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        in_cell = stream is None and redraw is None and form == "rich" and in_notebook()
        stream = stream if stream is not None else sys.stdout
        self._kept = KeptText()
        shown: Output
        if form == "json":
            shown = JsonLines(stream, clock)
        elif in_cell:
            shown = NotebookScreen(clock=clock)
        else:
            redraw = False if form == "plain" else redraw
            shown = Screen(stream, redraw=redraw, width=width, clock=clock)
        log = Screen(cast(IO[str], self._kept), redraw=False, width=_LOG_WIDTH, clock=clock)
        self._everywhere: tuple[Output, ...] = (shown, log)
        self._unasked: tuple[Output, ...] = (log,) if quiet else self._everywhere
        """Where what a quiet run leaves out goes."""

    def __enter__(self) -> Console:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
        self._kept.close()

    def keep(self, path: Path) -> None:
        """Append to a file what is shown, from the start on."""
        self._kept.open(path)

    def plan(self, rows: Sequence[tuple[str, str]], warnings: Sequence[str] = ()) -> None:
        """Print a table of names and values, and the warnings under it."""
        for output in self._unasked:
            output.plan(rows)
        for text in warnings:
            self.warning(text)

    @contextlib.contextmanager
    def compiling(self, label: str) -> Iterator[None]:
        """Show a long operation, such as "compiling train step", and in the end its seconds."""
        with contextlib.ExitStack() as stack:
            for output in self._unasked:
                stack.enter_context(output.compiling(label))
            yield

    def progress(self, row: Mapping[str, Any]) -> None:
        """Show the row of an iteration: the keys of metrics.jsonl, `goal`, `tracking_error`."""
        for output in self._unasked:
            output.progress(row)

    def show(self, table: Table) -> None:
        """Print a table as it is."""
        for output in self._unasked:
            output.show(table)

    def message(self, text: str) -> None:
        """Print a line above the progress."""
        for output in self._unasked:
            output.message(text)

    def warning(self, text: str) -> None:
        """Print a line above the progress that stands out."""
        for output in self._everywhere:
            output.warning(text)

    def finish(self, summary: str) -> None:
        """End the progress, then print a closing line."""
        for output in self._everywhere:
            output.finish(summary)

    def close(self) -> None:
        """End the progress and leave its last state; in a pipe print a row that still waits."""
        for output in self._everywhere:
            output.close()
