"""What a check has found: a row of the table, with what was measured and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PASS, WARN, FAIL = "pass", "warn", "fail"
STATUSES = (PASS, WARN, FAIL)
"""From good to bad. warn: training works, but not as well as it could, or something beside it does
not; fail: training does not work, or its results would be wrong."""


@dataclass(frozen=True)
class Finding:
    """One row."""

    check: str
    """Which check has made it: "memory"."""
    item: str
    """What of it: "NVML"; "" where the check has one row only."""
    status: str
    """One of STATUSES."""
    value: str
    """What was measured or read, or why it was not, in one line."""
    advice: str = ""
    """What to do; "" where nothing is to be done."""
    figures: dict[str, Any] = field(default_factory=dict)
    """The measured figures as data: numbers, words and lists of them; bytes and seconds."""

    @property
    def name(self) -> str:
        """`memory: NVML`"""
        return f"{self.check}: {self.item}" if self.item else self.check

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "check": self.check,
            "item": self.item,
            "status": self.status,
            "value": self.value,
            "advice": self.advice,
            "figures": self.figures,
        }


def worst(findings: list[Finding]) -> str:
    """The worst status of all, "pass" of none."""
    return max((found.status for found in findings), key=STATUSES.index, default=PASS)
