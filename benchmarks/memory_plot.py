"""What iterations_vs_memory.py has measured, drawn: speed on the left, memory on the right."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#8d5a97", "#c77d0a", "#5c5c5c", "#17a398", "#e39bb4")
SIZE, DPI = (10.0, 5.4), 130
"""Inches, and dots to the inch: 1300 pixels, legible at the 830 or so of a README."""
_PREDICTED = {"linestyle": "--", "marker": "D", "markerfacecolor": "white", "ms": 7.5, "lw": 1.2}
_MEASURED = {"linestyle": "-", "marker": "o", "ms": 4.5, "lw": 1.8, "zorder": 3}
_GREY = "#555555"


def draw(series: Mapping[str, Mapping[str, Any]], path: Path) -> bool:
    """Draw every series into a PNG; False, and no file, where there is no row to draw.

    Args:
      series: by name, each with its rows and the hardware that it was measured on.
      path: of the picture.
    """
    from matplotlib.figure import Figure

    drawable = {name: _drawable(one["rows"]) for name, one in sorted(series.items())}
    drawable = {name: rows for name, rows in drawable.items() if rows}
    if not drawable:
        return False
    figure = Figure(figsize=SIZE, dpi=DPI, layout="constrained")
    grid = figure.add_gridspec(2, 2)
    learning, stepping = (figure.add_subplot(grid[row, 0]) for row in range(2))
    memory = figure.add_subplot(grid[:, 1])
    for number, (name, rows) in enumerate(drawable.items()):
        style = {"color": COLOURS[number % len(COLOURS)]}
        sizes = [row["num_envs"] for row in rows]
        learning.plot(sizes, _values(rows, "iterations_per_min"), **_MEASURED, **style, label=name)
        stepping.plot(sizes, _values(rows, "env_steps_per_s"), **_MEASURED, **style)
        predicted = [row["predicted_bytes"]["total"] / 1e9 for row in rows]
        memory.plot(sizes, predicted, **_PREDICTED, **style)
        measured = [(row["measured_bytes"] or math.nan) / 1e9 for row in rows]
        memory.plot(sizes, measured, **_MEASURED, **style)
    _speed_axes(learning, "Iterations per minute", "iterations / min")
    _speed_axes(stepping, "Environment steps per second", "env steps / s")
    _axes(memory, "Peak memory of the run after compiling", "GB")
    memory.set_ylim(0.0, 1.08 * memory.get_ylim()[1])  # an error of a twentieth looks like one
    for axes in (learning, stepping, memory):
        _count_environments(axes, {row["num_envs"] for rows in drawable.values() for row in rows})
    hardware = sorted({str(series[name]["hardware"]) for name in drawable})
    figure.suptitle("; ".join(hardware), fontsize=10, color=_GREY, x=0.01, ha="left")
    _legends(figure, learning, memory)
    figure.savefig(path)
    return True


def _drawable(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    found = [row for row in rows if "failed" not in row]
    return sorted(found, key=lambda row: row["num_envs"])


def _values(rows: Sequence[Mapping[str, Any]], key: str) -> list[float]:
    return [row[key] for row in rows]


def _axes(axes: Any, title: str, unit: str) -> None:
    axes.set_title(title, fontsize=11.5, loc="left")
    axes.set_ylabel(unit, fontsize=10.5)
    axes.tick_params(labelsize=10)
    axes.grid(color="#d9d9d9", lw=0.7)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _speed_axes(axes: Any, title: str, unit: str) -> None:
    """Logarithmic, for a cartpole is a hundred times faster than a G1; with plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    _axes(axes, title, unit)
    axes.set_yscale("log")
    axes.margins(y=0.15)
    low, high = axes.get_ylim()
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 50 * low else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.yaxis.set_minor_locator(NullLocator())


def _count_environments(axes: Any, sizes: set[int]) -> None:
    """Name the numbers that were measured, where there is room for them."""
    axes.set_xscale("log", base=2)
    shown: list[int] = []
    for size in sorted(sizes):
        if not shown or size >= 1.4 * shown[-1]:
            shown.append(size)
    axes.set_xticks(shown, [f"{size:,}" for size in shown])
    axes.minorticks_off()
    if axes.get_subplotspec().is_last_row():
        axes.set_xlabel("environments", fontsize=10.5)


def _legends(figure: Any, learning: Any, memory: Any) -> None:
    """What the colours are under the figure, what the marks are where they are."""
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], color=_GREY, **style) for style in (_MEASURED, _PREDICTED)]
    memory.legend(marks, ["measured", "predicted"], loc="lower right", fontsize=10, framealpha=1.0)
    handles, names = learning.get_legend_handles_labels()
    place, columns = "outside lower center", min(len(names), 5)
    figure.legend(handles, names, loc=place, ncols=columns, fontsize=10, frameon=False)
