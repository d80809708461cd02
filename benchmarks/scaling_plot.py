"""What scaling.py has measured, drawn: devices on the left, environments on the right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

SIZE, DPI = (10.0, 4.2), 130
_BLUE, _RED, _GREY = "#1b6ca8", "#d1495b", "#555555"
_LINE = {"marker": "o", "ms": 4.5, "lw": 1.8}


def draw(record: Mapping[str, Any], path: Path) -> None:
    """Draw a record of scaling.py into a PNG. Raises ImportError without matplotlib."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = record["by_devices"]
    devices = [row["devices"] for row in rows]
    same, first = ([row[name] for row in rows] for name in ("of_one_device", "of_first"))
    left.plot(devices, same, color=_BLUE, label="of 1 device, as many environments", **_LINE)
    label = f"of {devices[0]} device{'s' * (devices[0] > 1)}, {record['each']} environments on each"
    left.plot(devices, first, color=_RED, label=label, **_LINE)
    left.axhline(1.0, color=_GREY, lw=0.8, ls="--")
    left.set_title("Env steps per second on virtual devices", fontsize=11.5, loc="left")
    left.legend(frameon=False, fontsize=9)
    sizes = record["by_size"]
    numbers = [row["num_envs"] for row in sizes]
    right.plot(numbers, [row["of_first"] for row in sizes], color=_BLUE, **_LINE)
    right.set_title(f"Cost of an env step, of that with {numbers[0]}", fontsize=11.5, loc="left")
    for axes, ticks, name in ((left, devices, "virtual devices"), (right, numbers, "environments")):
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel(name)
        axes.set_ylim(bottom=0.0)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    head = f"{record['hardware']}, load {record['load'][0]:.0f} to {record['load'][1]:.0f}"
    figure.suptitle(f"{record['robot']}: {head}", fontsize=10, color=_GREY, x=0.01, ha="left")
    figure.savefig(path)
