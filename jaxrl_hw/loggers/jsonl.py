"""metrics.jsonl: one JSON object per iteration, complete lines only."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import RunError, UserError

Warn = Callable[[str], None]
_TAIL = 1 << 16
"""Bytes at the end of the file that hold its last row."""
log_warning: Warn = logging.getLogger("jaxrl_hw").warning


class MetricsLog:
    """Appends rows to a file. Where the disk is full it warns once; the rows wait in memory."""

    def __init__(self, path: str | os.PathLike[str], warn: Warn = log_warning) -> None:
        self.path = Path(path)
        self._warn = warn
        self._waiting: list[bytes] = []

    def append(self, row: Mapping[str, Any]) -> None:
        """Write one row and hand it to the operating system. Never raises for a full disk."""
        self._waiting.append(json.dumps(jsonable(row), ensure_ascii=False).encode() + b"\n")
        try:
            self._write(b"".join(self._waiting))
        except OSError as error:
            if len(self._waiting) == 1:
                reason = error.strerror or str(error)
                self._warn(f"cannot write {self.path} ({reason}); its rows wait in memory")
            return
        self._waiting.clear()

    def truncate_after(self, iteration: int) -> int:
        """Drop rows of later iterations and a half-written last line; the number of rows dropped.

        A run that continues from a checkpoint writes those iterations again.

        Raises:
          UserError: a line in the middle is malformed.
          RunError: the file cannot be written.
        """
        if not self.path.exists():
            return 0
        rows = read_rows(self.path)
        later = (i for i, row in enumerate(rows) if row.get("iteration", 0) > iteration)
        kept = next(later, len(rows))
        lines = self.path.read_bytes().split(b"\n")[:kept]
        try:
            os.truncate(self.path, sum(len(line) + 1 for line in lines))
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {error.strerror or error}") from error
        return len(rows) - kept

    def _write(self, data: bytes) -> None:
        with self.path.open("ab", buffering=0) as file:
            size = file.tell()
            try:
                while data:
                    data = data[file.write(data) :]
            except OSError:
                with contextlib.suppress(OSError):
                    file.truncate(size)  # half a row would spoil the next one
                raise


def read_rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """All rows, oldest first; without a last line that a crash has cut.

    Raises:
      UserError: there is no file, or a line is malformed (names file and line).
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"no metrics in {path}: {error.strerror or error}") from error
    rows = []
    for number, line in enumerate(data.split(b"\n")[:-1], start=1):
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


def last_iteration(path: str | os.PathLike[str]) -> int:
    """The iteration of the last whole row; 0 without one. Reads the end of the file only."""
    for row in reversed(last_rows(path)):
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return int(row["iteration"])
    return 0


def last_rows(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The whole rows at the end of the file, some 60 of them, oldest first; none where it cannot
    be read. Leaves malformed lines out."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().split(b"\n")
    except OSError:
        return []
    rows = []
    for line in lines[:-1]:
        with contextlib.suppress(ValueError):
            rows.append(json.loads(line))
    return [row for row in rows if isinstance(row, dict)]


def read_columns(path: str | os.PathLike[str]) -> dict[str, list[Any]]:
    """The rows as one list per key, in the order of first appearance; None where a row lacks it.

    Raises UserError as `read_rows` does.
    """
    rows = read_rows(path)
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def jsonable(value: Any) -> Any:
    """A JSON value: NumPy and JAX scalars become Python numbers, non-finite floats None."""
    if isinstance(value, Mapping):
        return {str(key): jsonable(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(entry) for entry in value]
    if not isinstance(value, (bool, int, float, str)) and hasattr(value, "tolist"):
        return jsonable(value.tolist())  # a NumPy or JAX array or scalar
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
