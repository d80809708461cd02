"""What a check finds, what the checks share, and the rows as people read them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxrl_hw.loggers import formats

PASS, WARN, FAIL = "pass", "warn", "fail"
_STYLES = {PASS: "green", WARN: "yellow", FAIL: "bold red"}
STATUSES = (PASS, WARN, FAIL)
"""From good to bad. warn: training works, but slowly, or something beside it does not work.
fail: training does not work, or its results would be wrong, or it leaves the GPU unused."""


@dataclass(frozen=True)
class CheckResult:
    """One row of the table."""

    item: str
    """What it is about: "NVML"; "" where the check has one row only."""
    value: str
    """What was measured or read, or why it was not, in one line."""
    advice: str = ""
    """What to do; "" where there is nothing to do."""
    figures: dict[str, Any] = field(default_factory=dict)
    """The measured figures as data; bytes and seconds."""
    status: str = ""
    """One of STATUSES; left out, it is "warn" with advice and "pass" without."""
    check: str = ""
    """The check that made it: "memory"; `run_checks` fills it in."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", self.status or (WARN if self.advice else PASS))

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


def table(rows: Sequence[CheckResult]) -> Any:
    """A rich table. Rows of one check that have items stand under a heading."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    drawn.add_column("", no_wrap=True)
    drawn.add_column("check", no_wrap=True)
    drawn.add_column("measured, and what to do", overflow="fold")
    heading = ""
    for row in rows:
        if row.item and row.check != heading:
            drawn.add_row("", Text(row.check, style="bold"), "")
        heading = row.check
        name = Text(f"  {row.item}") if row.item else Text(row.check, style="bold")
        text = Text(row.value)
        if row.advice:
            text.append(f"\n-> {row.advice}", style=_STYLES[row.status])
        drawn.add_row(Text(row.status, style=_STYLES[row.status]), name, text)
    return drawn


def lines(rows: Sequence[CheckResult]) -> list[str]:
    """The same without rich."""
    return [
        f"{row.status}  {row.name}  {row.value}{f'  -> {row.advice}' if row.advice else ''}"
        for row in rows
    ]


def summary(rows: Sequence[CheckResult], seconds: float) -> str:
    """`37 passed, 1 warning, 2 failed (devices, physics: mjx), after 41 s`"""
    count = counts(rows)
    failed = ", ".join(dict.fromkeys(row.name for row in rows if row.status == FAIL))
    warnings = f"{count[WARN]} warning{'' if count[WARN] == 1 else 's'}"
    which = f" ({failed})" if failed else ""
    after = formats.duration(seconds)
    return f"{count[PASS]} passed, {warnings}, {count[FAIL]} failed{which}, after {after}"


def counts(rows: Sequence[CheckResult]) -> dict[str, int]:
    """How many rows have each status."""
    found = Counter(row.status for row in rows)
    return {status: found[status] for status in STATUSES}


def worst(rows: Sequence[CheckResult]) -> str:
    """The worst status of all, "pass" of none."""
    return max((row.status for row in rows), key=STATUSES.index, default=PASS)
