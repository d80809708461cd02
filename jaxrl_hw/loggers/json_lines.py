"""What a run shows as JSON: an object per line, for programs that read a run's output."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

from rich.table import Table

from jaxrl_hw.loggers.jsonl import jsonable
from jaxrl_hw.loggers.terminal import make_console

_EVERY_S = 5.0
_FIRST = 3


class JsonLines:
    """The output of a `Console`: {"event": ..., ...}, with its methods as events.

    Progress comes when a pipe gets it: for the first three iterations, every 5 s, and the last.
    """

    def __init__(self, stream: IO[str], clock: Callable[[], float]) -> None:
        self._console = make_console(stream, False, None)
        self._clock, self._lock = clock, threading.RLock()
        self._count, self._at = 0, 0.0
        self._unprinted: dict[str, Any] | None = None

    def plan(self, rows: Sequence[tuple[str, str]]) -> None:
        self._print("plan", rows=dict(rows))

    @contextlib.contextmanager
    def compiling(self, label: str) -> Iterator[None]:
        began = self._clock()
        self.close()
        self._print("begin", text=label)
        yield
        self._print("end", text=label, seconds=round(self._clock() - began, 3))

    def progress(self, row: Mapping[str, Any]) -> None:
        with self._lock:
            now, self._unprinted = self._clock(), dict(row)
            if self._count < _FIRST or now - self._at >= _EVERY_S:
                self._count, self._at = self._count + 1, now
                self.close()

    def show(self, table: Table) -> None:
        text = io.StringIO()
        make_console(text, False, 80).print(table)
        self._print("table", text=text.getvalue())

    def message(self, text: str) -> None:
        self._print("message", text=text)

    def warning(self, text: str) -> None:
        self._print("warning", text=text)

    def finish(self, summary: str) -> None:
        self.close()
        self._print("finish", text=summary)

    def close(self) -> None:
        with self._lock:
            row, self._unprinted = self._unprinted, None
            if row is not None:
                self._print("progress", **row)

    def _print(self, event: str, **values: Any) -> None:
        line = json.dumps({"event": event, **jsonable(values)})
        self._console.print(line, markup=False, emoji=False, soft_wrap=True)
        with contextlib.suppress(OSError, ValueError):
            self._console.file.flush()
