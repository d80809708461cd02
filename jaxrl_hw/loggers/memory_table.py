"""Where memory goes, and how much of it other sizes would take, as tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from rich import box
from rich.table import Table

from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.terminal import make_table

_BAR = 24
_LOOK: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "no_wrap": range(5)}
_STYLES = {"fits": "green", "tight": "yellow", "fails": "red"}


def breakdown(
    items: Mapping[str, int],
    device: int | None,
    title: str = "memory",
    each: Mapping[str, int] = MappingProxyType({}),
) -> Table:
    """Bytes by item, each with its share of the whole as a bar; empty items are left out.

    device: bytes of the device that holds them; None where unknown.
    each: what one of several seeds has of them, in a column of its own; none where it is empty.
    """
    whole = max(1, sum(items.values()))
    column = [">each seed"] if each else []
    table = make_table(title, *column, ">all seeds" if each else ">", ">share", "", **_LOOK)

    def add(name: str, value: int, own: int | None, share: str, bar: str = "") -> None:
        of_seed = [formats.size(own) if own else "-"] if each else []
        table.add_row(name, *of_seed, formats.size(value), share, bar)

    for name, value in items.items():
        if value:
            bar = "█" * round(_BAR * value / whole) or "▏"
            add(name, value, each.get(name), f"{value / whole:.1%}", bar)
    table.add_section()
    add("total", whole, sum(each.values()), "100%")
    if device:
        add("of the device", device, None, f"{whole / device:.1%}")
    return table


def sizes(candidates: Iterable[Any], chosen: int) -> Table:
    """Numbers of environments (`sizing.Candidate`) with their memory, verdict and speed."""
    table = make_table(">environments", ">memory", "", ">env steps/s", **_LOOK)
    for one in candidates:
        style = _STYLES.get(one.verdict, "none")
        table.add_row(
            f"{one.num_envs:,}{' <' if one.num_envs == chosen else ''}",
            formats.size(one.expected_bytes),
            f"[{style}]{one.verdict}[/]",
            formats.count(one.steps_per_s),
        )
    return table
