"""Where memory goes, and how much of it other sizes would take, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.table import Table

from jaxrl_hw.loggers import formats

_BAR = 24
_STYLES = {"fits": "green", "tight": "yellow", "fails": "red"}


class Size(NamedTuple):
    """A number of environments, and what it would take."""

    num_envs: int
    expected_bytes: int
    verdict: str
    """fits, tight, fails or unknown."""
    steps_per_s: float | None
    """As measured, None where it was not."""
    chosen: bool


def breakdown(items: Mapping[str, int]) -> Table:
    """Bytes by item, each with its part of the whole as a bar; empty items are left out."""
    whole = max(1, sum(items.values()))
    table = _table("memory", "", "share", "")
    for name, value in items.items():
        if value:
            bar = "█" * round(_BAR * value / whole) or "▏"
            table.add_row(name, formats.size(value), f"{value / whole:.1%}", bar)
    table.add_section()
    table.add_row("together", formats.size(whole), "100%", "")
    return table


def sizes(rows: Sequence[Size]) -> Table:
    """Numbers of environments with their memory, whether it does, and their speed."""
    table = _table("environments", "memory", "", "env steps/s", left=1)
    for row in rows:
        style = _STYLES.get(row.verdict, "")
        verdict = f"[{style}]{row.verdict}[/]" if style else row.verdict
        speed = formats.count(row.steps_per_s)
        mark = " <" if row.chosen else ""
        table.add_row(f"{row.num_envs:,}{mark}", formats.size(row.expected_bytes), verdict, speed)
    return table


def _table(*columns: str, left: int = 0) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        numbers = i in (0, 1, 3) if left else i in (1, 2)
        table.add_column(column, justify="right" if numbers else "left", no_wrap=True)
    return table
