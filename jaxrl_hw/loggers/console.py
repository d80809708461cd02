"""What a user sees of a run: the plan, the compilation, one live line, the end.

On a terminal the line is redrawn in place; in a pipe, a file or a notebook it is printed at a sane
rate.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, Any

from rich.console import Console as RichConsole
from rich.console import ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.progress import LiveView, Progress
from jaxrl_hw.loggers.terminal import can_redraw, make_console

_FIRST_LINES = 3
_LINE_EVERY_S = 5.0


class Console:
    """The trainer's voice. All methods may be called from any thread.

    stream: stdout unless given.
    redraw: whether lines may be drawn over; None finds out.
    width: columns; None asks the terminal (80 in a pipe).
    clock: seconds that never go back.
    """

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        redraw: bool | None = None,
        width: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        stream = stream if stream is not None else sys.stdout
        self.redraw = can_redraw(stream) if redraw is None else redraw
        self._console = make_console(stream, self.redraw, width)
        self._clock = clock
        self._progress = Progress(clock)
        self._live: Live | None = None
        self._lock = threading.RLock()
        self._lines = 0
        self._line_at = 0.0
        self._unsaid: str | None = None

    def __enter__(self) -> Console:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def plan(self, rows: Sequence[tuple[str, str]], warnings: Sequence[str] = ()) -> None:
        """Print a table of names and values, and the warnings under it."""
        self._table(rows)
        for text in warnings:
            self.warning(text)

    @contextlib.contextmanager
    def compiling(self, label: str) -> Iterator[None]:
        """Show that something long is going on, with its seconds: "compiling train step ... 12 s".

        label: what is done, such as "compiling train step".
        """
        began = self._clock()
        self.close()
        if self.redraw:
            view = _Elapsed(label, began, self._clock)
            with Live(view, console=self._console, refresh_per_second=4, transient=True):
                yield
        else:
            self._say(f"{label} ...")
            yield
        self._say(f"{label}: {formats.duration(self._clock() - began)}")

    def progress(self, row: Mapping[str, Any]) -> None:
        """Show the row of an iteration: the keys of metrics.jsonl, `goal`, `tracking_error`."""
        with self._lock:
            self._progress.update(row)
            if self.redraw:
                self._show_live()
            else:
                self._show_line()

    def show(self, table: Table) -> None:
        """Print a table as it is."""
        self._console.print(table)

    def message(self, text: str) -> None:
        """Print a line above the live one."""
        self._say(text)

    def warning(self, text: str) -> None:
        """Print a line above the live one that stands out."""
        self._say(f"warning: {text}", style="yellow")

    def finish(self, summary: str, rows: Sequence[tuple[str, str]] = ()) -> None:
        """End the live line, then print a closing line and a table of results."""
        self.close()
        self._say(summary, style="bold")
        if rows:
            self._table(rows)

    def close(self) -> None:
        """End the live line, leaving its last state; in a pipe print the last row if it was not."""
        with self._lock:
            live, self._live = self._live, None
            if live is not None:
                with contextlib.suppress(OSError):
                    live.stop()
            if self._unsaid is not None:
                self._say(self._unsaid)
                self._unsaid = None

    def _show_live(self) -> None:
        if self._live is None:
            # Twice a second costs next to nothing; the clocks tick while an iteration runs.
            view = LiveView(self._progress)
            self._live = Live(view, console=self._console, refresh_per_second=2)
            with contextlib.suppress(OSError):
                self._live.start()

    def _show_line(self) -> None:
        now, text = self._clock(), self._progress.line()
        goal = self._progress.goal
        last = goal is not None and self._progress.iteration >= goal
        if self._lines < _FIRST_LINES or now - self._line_at >= _LINE_EVERY_S or last:
            self._say(text)
            self._lines, self._line_at, self._unsaid = self._lines + 1, now, None
        else:
            self._unsaid = text

    def _say(self, text: str, style: str | None = None) -> None:
        # On a terminal long lines break between words; in a pipe one line stays one line.
        self._console.print(Text(text, style=style or ""), soft_wrap=not self.redraw)
        if not self.redraw:
            with contextlib.suppress(OSError, ValueError):
                self._console.file.flush()

    def _table(self, rows: Sequence[tuple[str, str]]) -> None:
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows:
            table.add_row(Text(f"  {name}"), Text(value))
        self._console.print()
        self._console.print(table)
        self._console.print()


class _Elapsed:
    """A label and the seconds since it began, new at each drawing."""

    def __init__(self, label: str, began: float, clock: Callable[[], float]) -> None:
        self._label, self._began, self._clock = label, began, clock

    def __rich_console__(self, console: RichConsole, options: ConsoleOptions) -> RenderResult:
        seconds = formats.duration(self._clock() - self._began)
        yield Text(f"{self._label} ... {seconds}", no_wrap=True, overflow="ellipsis")
