"""What a run shows on a stream of text.

On a terminal the progress is redrawn in place. In a pipe, a file or a notebook it is one plain
line: for the first three iterations, then every 5 s, and for the last.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from rich.live import Live
from rich.progress import Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.progress import RunProgress
from jaxrl_hw.loggers.terminal import can_redraw, make_console

_FIRST_LINES = 3
_LINE_EVERY_S = 5.0


class Screen:
    """The output of a `Console` as text, with its methods.

    stream: a terminal, a pipe or a file.
    redraw: whether the terminal can draw over lines; None finds out.
    width: columns; None asks the terminal (80 in a pipe).
    clock: seconds that never go back.
    """

    def __init__(
        self,
        stream: IO[str],
        *,
        redraw: bool | None = None,
        width: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.redraw = can_redraw(stream) if redraw is None else redraw
        self._console = make_console(stream, self.redraw, width)
        self._clock = clock
        self._progress = RunProgress(self._console, clock)
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._lines = 0
        self._line_at = 0.0
        self._unprinted: str | None = None

    def plan(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print a table of names and values."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(Text(f"  {name}"), Text(value))
        self._console.print("", table, "")

    @contextlib.contextmanager
    def compiling(self, label: str) -> Iterator[None]:
        """Show a long operation, such as "compiling train step", and in the end its seconds."""
        began = self._clock()
        self.close()
        if self.redraw:
            columns = TextColumn("{task.description} ...", markup=False), TimeElapsedColumn()
            with Progress(*columns, console=self._console, transient=True) as progress:
                progress.add_task(label, total=None)
                yield
        else:
            self._print(f"{label} ...")
            yield
        self._print(f"{label}: {formats.duration(self._clock() - began)}")

    def progress(self, row: Mapping[str, Any]) -> None:
        """Show the row of an iteration: the keys of metrics.jsonl, `goal`, `tracking_error`."""
        with self._lock:
            self._progress.advance_to(row)
            if self.redraw:
                self._start_live()
            else:
                self._print_line()

    def show(self, table: Table) -> None:
        """Print a table as it is."""
        self._console.print(table)

    def message(self, text: str) -> None:
        """Print a line above the progress."""
        self._print(text)

    def warning(self, text: str) -> None:
        """Print a line above the progress that stands out."""
        self._print(f"warning: {text}", style="yellow")

    def finish(self, summary: str) -> None:
        """End the progress, then print a closing line."""
        self.close()
        self._print(summary, style="bold")

    def close(self) -> None:
        """End the progress and leave its last state; in a pipe print a row that still waits."""
        with self._lock:
            live, self._live = self._live, None
            if live is not None:
                with contextlib.suppress(OSError):
                    live.stop()
            if self._unprinted is not None:
                self._print(self._unprinted)
                self._unprinted = None

    def _start_live(self) -> None:
        if self._live is None:
            # A Live of its own: rich's Progress draws over its old lines when started again.
            draw = self._progress.get_renderable
            self._live = Live(get_renderable=draw, console=self._console, refresh_per_second=2)
            with contextlib.suppress(OSError):
                self._live.start()

    def _print_line(self) -> None:
        now, text = self._clock(), self._progress.line()
        due = self._lines < _FIRST_LINES or now - self._line_at >= _LINE_EVERY_S
        if due or self._progress.finished:
            self._print(text)
            self._lines, self._line_at, self._unprinted = self._lines + 1, now, None
        else:
            self._unprinted = text

    def _print(self, text: str, style: str = "") -> None:
        # On a terminal long lines break between words; in a pipe one line stays one line.
        self._console.print(Text(text, style=style), soft_wrap=not self.redraw)
        if not self.redraw:
            with contextlib.suppress(OSError, ValueError):
                self._console.file.flush()
