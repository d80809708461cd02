"""The processes of a run, which act in step: each says something, and all hear what all said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class ElsewhereError(MemoryError):
    """Another process of the run is out of memory: this one shrinks as well."""


class Group:
    """A run's only process; `star.Star` is one of several.

    All of them call the same methods in the same order. Where another one is gone, a wait ends with
    RunError, or the process does.
    """

    number = 1
    index = 0
    timeout_s: float | None = None
    """How long `report_full` waits."""
    scratch: Path | None = None
    """A folder that all but the first process write in, and that is thrown away in the end."""

    @property
    def is_first(self) -> bool:
        """Whether this process owns the run's folder and decides."""
        return self.index == 0

    def round(self, value: Any, timeout_s: float | None = None) -> list[Any]:
        """What every process said, by index, as JSON has it.

        timeout_s: after which RunError is raised; None waits as long as all others live.
        """
        return [value]

    def share(self, data: bytes = b"") -> bytes:
        """The first process's bytes."""
        return data

    def collect(self, data: bytes) -> list[bytes]:
        """The others' bytes, by index, in the first process; nothing in the others."""
        return []

    def decided(self, value: Any) -> Any:
        """The first process's value, as JSON has it."""
        return value if self.number == 1 else json.loads(self.share(json.dumps(value).encode()))

    def agreed(self, value: Any) -> list[Any]:
        """`round`, in which a process that is out of memory may answer with `report_full`.

        Raises ElsewhereError where one did.
        """
        said = self.round({"value": value, "full": False})
        if any(one["full"] for one in said):
            raise ElsewhereError
        return [one["value"] for one in said]

    def stopped(self, reason: str | None) -> str | None:
        """Why the run stops: the reason of the first process that has one; None to go on."""
        return next((one for one in self.agreed(reason) if one), None)

    def report_full(self) -> None:
        """Out of memory: answer the others, who are in `agreed` or come to it.

        Raises RunError where they do not, because they wait for this process in a computation.
        """
        self.round({"value": None, "full": True}, self.timeout_s)


ALONE = Group()
