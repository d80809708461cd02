"""metrics.jsonl: one JSON object per iteration, whole lines only."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.loggers.notice import Warn, log_warning
from jaxrl_hw.loggers.plain import plain


class MetricsLog:
    """Appends rows to a file. A disk that refuses is a warning, and the rows wait for it."""

    def __init__(self, path: str | os.PathLike[str], warn: Warn = log_warning) -> None:
        self.path = Path(path)
        self._warn = warn
        self._waiting: list[bytes] = []

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row and hand it to the operating system. Never raises for a full disk."""
        self._waiting.append(json.dumps(plain(row), ensure_ascii=False).encode() + b"\n")
        try:
            self._write(b"".join(self._waiting))
        except OSError as error:
            if len(self._waiting) == 1:
                reason = error.strerror or str(error)
                self._warn(f"{self.path} cannot be written ({reason}); its rows wait in memory")
            return
        self._waiting.clear()

    def truncate_after(self, iteration: int) -> int:
        """Drop rows of later iterations and a half-written last line; the number of rows dropped.

        A run that continues from a checkpoint writes those iterations again. Raises UserError where
        a line in the middle is malformed, RunError where the file cannot be written.
        """
        if not self.path.exists():
            return 0
        rows = read_rows(self.path)
        kept = [row for row in rows if row.get("iteration", 0) <= iteration]
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in kept)
        if text.encode() != self.path.read_bytes():
            _replace(self.path, text)
        return len(rows) - len(kept)

    def _write(self, data: bytes) -> None:
        # Opened for each row: truncate_after puts another file in its place.
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            size = os.fstat(descriptor).st_size
            try:
                while data:
                    data = data[os.write(descriptor, data) :]
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(descriptor, size)  # half a row would spoil the next one
                raise
        finally:
            os.close(descriptor)


def read_rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All rows, oldest first; a last line without its line break, cut by a crash, is left out.

    Raises UserError where there is no file, or naming file and line where one is malformed.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"no metrics in {path}: {error.strerror or error}") from error
    lines = data.split(b"\n")
    rows = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        if not isinstance(row, dict):
            raise UserError(
                f"{path}, line {number}: not a JSON object ({line[:40]!r}); delete that line"
            )
        rows.append(row)
    return rows


def read_columns(path: str | os.PathLike[str]) -> dict[str, list[Any]]:
    """The rows as one list per key, in the order of first appearance; None where a row lacks it.

    Raises UserError as `read_rows` does.
    """
    rows = read_rows(path)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def _replace(path: Path, text: str) -> None:
    temporary = ""
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, path.stat().st_mode & 0o777)
        os.replace(temporary, path)
    except OSError as error:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
