"""The console's output, kept in a file that is opened later: a command that trains nothing leaves
the run's folder as it is."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import IO


class KeptText(io.TextIOBase):
    """A stream that waits in memory until it has a file. A full disk loses lines, never a run."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: list[str] = []
        self._file: IO[str] | None = None
        self._is_lost = False

    def open(self, path: Path) -> None:
        """Append to a file what was written and will be; the first one that is opened keeps it.
        Never raises."""
        if self._file is not None:
            return
        try:
            self._file = path.open("a", encoding="utf-8", errors="replace")
        except OSError:
            self._lose()
            return
        self._is_lost = False
        waiting, self._waiting = self._waiting, []
        self.write("".join(waiting))

    def write(self, text: str) -> int:
        """Keep a text. Never raises."""
        if self._file is None:
            if not self._is_lost:
                self._waiting.append(text)
            return len(text)
        try:
            self._file.write(text)
            self._file.flush()
        except (OSError, ValueError):
            self._lose()
        return len(text)

    def close(self) -> None:
        """Close the file; what is written afterwards waits for another. Never raises."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()

    def _lose(self) -> None:
        self.close()
        self._is_lost = True
        self._waiting.clear()
