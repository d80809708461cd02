"""The rows as people read them: a table, and one line that sums it up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jaxrl_hw.cli.doctor.results import FAIL, PASS, STATUSES, WARN, CheckResult
from jaxrl_hw.loggers import formats

_STYLES = {PASS: "green", WARN: "yellow", FAIL: "bold red"}


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
