"""TensorBoard files: scalars and texts of a session, one step per iteration, and films of the run.

tensorboardX's SummaryWriter hands events to a thread through a bounded queue. On a full disk that
thread dies and the run waits for it forever. Its EventsWriter, used here, writes in place.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import first_line
from jaxrl_hw.loggers.jsonl import Warn, jsonable, log_warning

_FLUSH_S = 30.0
_FILMS = "film"
"""Folder of the films, which TensorBoard shows as a run of its own: it reads one file of a folder
at a time, so a film beside the scalars would end those of a run in training."""


class TensorBoardLog:
    """Scalars and texts by name. The first failure is one call of `warn`, and the last writing.

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

    def texts(self, iteration: int, make: Callable[[], Mapping[str, str]]) -> None:
        """Write texts in Markdown by name, at an iteration of this session. Never raises.

        make: gives them; not called where nothing is written.
        """
        if self._enabled:
            self._guarded(lambda: self._write_texts(iteration, make()))

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
        from tensorboardX.proto.summary_pb2 import Summary

        values = [
            Summary.Value(tag=name, simple_value=float(value))
            for name, value in jsonable(row).items()
            if name != "iteration" and isinstance(value, (int, float))
        ]
        self._event(step=int(iteration), summary=Summary(value=values))
        now = time.time()
        if now - self._flushed_at >= _FLUSH_S:
            self._writer.flush()
            self._flushed_at = now

    def _write_texts(self, iteration: int, texts: Mapping[str, str]) -> None:
        from tensorboardX.summary import text

        for name, markdown in texts.items():
            self._event(step=int(iteration), summary=text(name, markdown))
        self._writer.flush()

    def _event(self, **content: Any) -> None:
        """Write an event; the first one makes the file."""
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto.event_pb2 import Event, SessionLog

        if self._writer is None:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._writer = EventsWriter(str(self._directory / "events"))
            if self._purge_step is not None:
                start = SessionLog(status=SessionLog.START)
                self._event(step=self._purge_step, session_log=start)
        self._writer.write_event(Event(wall_time=time.time(), **content))


def write_film(directory: Path, iteration: int, gif: bytes) -> None:
    """Write a film of an iteration's policy, in place of one that is there.

    Args:
      directory: of the run's TensorBoard files.
      gif: an animation, which TensorBoard shows as an image that moves.

    Raises:
      OSError: the disk refuses.
    """
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.proto.summary_pb2 import Summary
    from tensorboardX.record_writer import RecordWriter

    width, height = struct.unpack("<HH", gif[6:10])
    image = Summary.Image(width=width, height=height, colorspace=3, encoded_image_string=gif)
    summary = Summary(value=[Summary.Value(tag="film", image=image)])
    path = directory / _FILMS / f"events.out.tfevents.{iteration:010d}"
    partial = path.with_name(f".{iteration}.{os.getpid()}")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        writer, now = RecordWriter(str(partial)), time.time()
        for event in (
            Event(wall_time=now, file_version="brain.Event:2"),
            Event(wall_time=now, step=iteration, summary=summary),
        ):
            writer.write(event.SerializeToString())
        writer.close()
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
