"""Settings with their values and where these come from, as a table."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from jaxrl_hw.loggers.terminal import make_table

_WIDEST = 24
"""Characters of a value."""


def origins_table(origins: Mapping[str, Any]) -> Table:
    """A row for each `Origin` by its dotted key."""
    table = make_table(
        "setting", "value", "from", box=box.SIMPLE_HEAD, pad_edge=False, no_wrap=range(2)
    )
    for key, (value, origin) in origins.items():
        shown = textwrap.shorten(_shown(value), _WIDEST, placeholder=" ...")
        table.add_row(key, Text(shown), Text(origin))
    return table


def _shown(value: Any) -> str:
    if isinstance(value, list):
        stages = any(isinstance(one, dict) for one in value)
        return f"{len(value)} stages" if stages else " ".join(map(_shown, value))
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
