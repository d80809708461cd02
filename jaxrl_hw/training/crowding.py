"""Memory that a run holds beside what it may use: said once, before it ends the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.jsonl import Warn

_CROWDED = 0.95
"""Share of the memory that the run may use, above which the user is warned."""


class Crowding:
    """Watches a session's rows. most_bytes: what the run may use; None where nothing limits it.
    warn: called at the first row that comes close to it.
    """

    def __init__(self, most_bytes: int | None, warn: Warn) -> None:
        self._most, self._warn, self._is_told = most_bytes, warn, False

    def feed(self, row: Mapping[str, Any]) -> None:
        """Take an iteration's row."""
        used = row["memory_bytes"] or 0
        if self._most and used > _CROWDED * self._most and not self._is_told:
            self._is_told = True
            used_of = f"{formats.size(used)} of the {formats.size(self._most)}"
            self._warn(f"the run uses {used_of} that it may use")
