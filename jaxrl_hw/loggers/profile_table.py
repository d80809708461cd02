"""Where an iteration's time goes, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table

from jaxrl_hw.loggers.terminal import make_table


def profile_table(figures: Mapping[str, Any], meaning: Mapping[str, str]) -> Table:
    """Milliseconds of an iteration by part.

    Args:
      figures: `busy_s` by part and `idle_s`, `wall_s` of an iteration, s; `iterations` traced.
      meaning: what each part is.
    """
    busy: Mapping[str, float] = figures["busy_s"]
    whole = max(1e-9, sum(busy.values()))
    title = f"an iteration, mean of {figures['iterations']}"
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "pad_edge": False, "no_wrap": range(3)}
    table = make_table(title, ">ms", ">share", "", **look)
    for part, seconds in sorted(busy.items(), key=lambda item: -item[1]):
        share = f"{seconds / whole:.1%}"
        table.add_row(part, f"{1e3 * seconds:.1f}", share, meaning[part])
    table.add_section()
    table.add_row("all parts", f"{1e3 * whole:.1f}", "100%", "summed over threads or streams")
    table.add_row("idle", f"{1e3 * figures['idle_s']:.1f}", "", "no operation runs: the host works")
    table.add_row("wall time", f"{1e3 * figures['wall_s']:.1f}", "", "tracing included")
    return table
