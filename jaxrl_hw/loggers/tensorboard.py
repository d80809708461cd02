"""TensorBoard files, one step per iteration.

tensorboardX's SummaryWriter hands events to a thread through a bounded queue. On a full disk that
thread dies and the run waits for it forever. Its EventsWriter, used here, writes in place.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import first_line
from jaxrl_hw.loggers.jsonl import Warn, jsonable, log_warning

_FLUSH_S = 30.0


class TensorBoardLog:
    """Scalars by name. The first failure is one call of `warn`; then nothing more is written.

    purge_step: of a resumed run, the first iteration that will be written: TensorBoard then drops
        what earlier sessions wrote from there on.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        enabled: bool = True,
        *,
        purge_step: int | None = None,
        warn: Warn = log_warning,
    ) -> None:
        self._directory, self._enabled = Path(directory), enabled
        self._purge_step, self._warn = purge_step, warn
        self._writer: Any = None
        self._flushed_at = 0.0

    def append(self, iteration: int, row: Mapping[str, Any]) -> None:
        """Write the numbers of a row and skip everything else. Never raises."""
        if self._enabled:
            self._guarded(lambda: self._write(iteration, row))

    def close(self) -> None:
        """Flush and close the file. Never raises."""
        writer, self._writer = self._writer, None
        if writer is not None:
            self._guarded(writer.close)
        self._enabled = False

    def _guarded(self, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:  # a plot is never worth a run
            self._enabled, self._writer = False, None
            self._warn(f"no more TensorBoard files in {self._directory}: {first_line(error)}")

    def _write(self, iteration: int, row: Mapping[str, Any]) -> None:
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog
        from tensorboardX.proto.summary_pb2 import Summary

        now = time.time()
        if self._writer is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._writer = EventsWriter(str(self._directory / "events"))
            if self._purge_step is not None:
                start = SessionLog(status=SessionLog.START)
                event = Event(wall_time=now, step=self._purge_step, session_log=start)
                self._writer.write_event(event)
        values = [
            Summary.Value(tag=name, simple_value=float(value))
            for name, value in jsonable(row).items()
            if name != "iteration" and isinstance(value, (int, float))
        ]
        event = Event(wall_time=now, step=int(iteration), summary=Summary(value=values))
        self._writer.write_event(event)
        if now - self._flushed_at >= _FLUSH_S:
            self._writer.flush()
            self._flushed_at = now
