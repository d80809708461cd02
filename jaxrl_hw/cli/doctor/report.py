"""What was found as people read it: a table, and one line that sums it up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from jaxrl_hw.cli.doctor.results import FAIL, PASS, STATUSES, WARN, Finding
from jaxrl_hw.loggers import formats

_STYLES = {PASS: "green", WARN: "yellow", FAIL: "bold red"}


def table(findings: Sequence[Finding]) -> Any:
    """A rich table with a row for each finding: status, what, and what was measured and to do.

    Findings of one check with items of their own stand under a heading.
    """
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    drawn.add_column("", no_wrap=True)
    drawn.add_column("check", no_wrap=True)
    drawn.add_column("measured, and what to do", overflow="fold")
    heading = ""
    for found in findings:
        if found.item and found.check != heading:
            drawn.add_row("", Text(found.check, style="bold"), "")
        heading = found.check
        name = Text(f"  {found.item}") if found.item else Text(found.check, style="bold")
        told = Text(found.value)
        if found.advice:
            told.append(f"\n-> {found.advice}", style=_STYLES[found.status])
        drawn.add_row(Text(found.status, style=_STYLES[found.status]), name, told)
    return drawn


def lines(findings: Sequence[Finding]) -> list[str]:
    """The same without rich, for an installation that lacks it."""
    return [
        f"{found.status}  {found.name}  {found.value}{f'  -> {found.advice}' * bool(found.advice)}"
        for found in findings
    ]


def summary(findings: Sequence[Finding], seconds: float) -> str:
    """`37 passed, 1 warning, 2 failed (devices, physics: mjx), after 41 s`"""
    count = counts(findings)
    failed = [found.name for found in findings if found.status == FAIL]
    warnings = f"{count[WARN]} warning{'' if count[WARN] == 1 else 's'}"
    which = f" ({', '.join(dict.fromkeys(failed))})" if failed else ""
    after = formats.duration(seconds)
    return f"{count[PASS]} passed, {warnings}, {count[FAIL]} failed{which}, after {after}"


def counts(findings: Sequence[Finding]) -> dict[str, int]:
    """How many there are of each status."""
    found = Counter(finding.status for finding in findings)
    return {status: found[status] for status in STATUSES}
