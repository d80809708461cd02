"""What a check finds, and what the checks share."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PASS, WARN, FAIL = "pass", "warn", "fail"
STATUSES = (PASS, WARN, FAIL)
"""From good to bad. warn: training works, but slowly, or something beside it does not work.
fail: training does not work, or its results would be wrong."""


@dataclass(frozen=True)
class CheckResult:
    """One row of the table."""

    check: str
    """The check that made it: "memory"."""
    item: str
    """What it is about: "NVML"; "" where the check has one row only."""
    status: str
    """One of STATUSES."""
    value: str
    """What was measured or read, or why it was not, in one line."""
    advice: str = ""
    """What to do; "" where there is nothing to do."""
    figures: dict[str, Any] = field(default_factory=dict)
    """The measured figures as data; bytes and seconds."""

    @property
    def name(self) -> str:
        """`memory: NVML`"""
        return f"{self.check}: {self.item}" if self.item else self.check


@dataclass
class Context:
    """What the checks are given, and what they leave for those after them."""

    run_dir: Path
    """Where runs would be written; it need not exist."""
    scratch: Path
    """An empty folder that is removed at the end."""
    opened: dict[str, Any] | None = None
    """The result of `check_devices.open_devices`; None until JAX has opened its devices."""
    error: str = ""
    """Why JAX opened no device."""

    @property
    def environ(self) -> dict[str, str]:
        """Variables for a process that compiles: it finds no cache and leaves none behind."""
        cache = str(self.scratch / "cache")
        return {**os.environ, "JAXRL_HW_CACHE": cache, "JAX_COMPILATION_CACHE_DIR": cache}

    @property
    def platform(self) -> str:
        """cpu, gpu or tpu; "" where JAX has opened no device."""
        return "" if self.opened is None else str(self.opened["platform"])

    def blames(self, variable: str) -> bool:
        """Whether JAX's error names this environment variable."""
        return variable.startswith(("JAX_", "XLA_")) and variable in self.error
