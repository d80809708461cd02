"""How the report's figures look, and how they are saved."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context, ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure as Canvas

COLOURS = ("#0b6fb8", "#d1601f", "#2a8f5b", "#8a52a8", "#b8384f", "#7a6a20", "#3a9aa8", "#6b7280")
QUIET = "#9aa3ad"
_SIZE = (4.6, 2.75)
"""Inches: a column of the page, so that a telephone shrinks the text little."""
_DPI = 180
_MOST_TICKS = 6
"""Between which an axis is divided, from left to right."""
_LOOK: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#57606a",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e7eb",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.6,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 3,  # subsetting a font for type 42 takes as long as all the rest
}


class Figure(NamedTuple):
    """A figure of the report."""

    name: str
    """Of its files."""
    text: str
    """What it shows, in words."""
    canvas: Canvas

    def save(self, suffix: str) -> bytes:
        """The figure as a file: png or pdf."""
        data = io.BytesIO()
        # without the date two reports of the same run are the same files
        meta = {"CreationDate": None} if suffix == "pdf" else {"Software": None}
        with rc_context(_LOOK):
            self.canvas.savefig(data, format=suffix, dpi=_DPI, metadata=meta)
        self.canvas.set_layout_engine("none")  # it has done its work: saving again is quicker
        return data.getvalue()


def blank(title: str, height: float = 1.0) -> tuple[Canvas, Axes]:
    """An empty figure with one pair of axes; `height` as a share of the usual one."""
    with rc_context(_LOOK):
        canvas = Canvas(figsize=(_SIZE[0], _SIZE[1] * height), facecolor="white")
        axes = canvas.add_subplot()
        axes.set_title(title)
        # by default there may be so many that long ones touch
        axes.xaxis.set_major_locator(ticker.MaxNLocator(_MOST_TICKS, steps=[1, 2, 2.5, 5, 10]))
    return canvas, axes


def count_axis(axis: Axis) -> None:
    """Write an axis's numbers as 2M, 500k."""
    axis.set_major_formatter(ticker.EngFormatter(sep=""))


def smooth(values: np.ndarray, share: float = 0.03) -> np.ndarray:
    """A running mean over a share of the values around each, NaN left out."""
    half = max(1, round(share * len(values) / 2))
    known = np.isfinite(values)
    sums = np.cumsum(np.concatenate([[0.0], np.where(known, values, 0.0)]))
    counts = np.cumsum(np.concatenate([[0], known]))
    ends = np.minimum(np.arange(len(values)) + half + 1, len(values))
    starts = np.maximum(np.arange(len(values)) - half, 0)
    number = counts[ends] - counts[starts]
    with np.errstate(invalid="ignore"):
        return np.where(number > 0, (sums[ends] - sums[starts]) / np.maximum(number, 1), np.nan)


def draw_line(
    axes: Axes, x: np.ndarray, values: np.ndarray, colour: str, label: str | None = None
) -> None:
    """A curve: its values faintly, their running mean over them."""
    if len(x) < 30:
        axes.plot(x, values, color=colour, label=label, marker="o", markersize=3)
        return
    axes.plot(x, values, color=colour, alpha=0.25, linewidth=0.6)
    axes.plot(x, smooth(values), color=colour, label=label)


def mark(axes: Axes, places: Sequence[float]) -> None:
    """Vertical lines where sessions began."""
    for i, place in enumerate(places):
        label = "a session begins" if i == 0 else None
        axes.axvline(place, color=QUIET, linestyle="--", linewidth=1, label=label)


def finish(axes: Axes, below: int = 0) -> None:
    """A legend where there is something to tell apart; `below` the axes in so many columns."""
    if axes.get_legend_handles_labels()[0]:
        with rc_context(_LOOK):
            if below:
                axes.figure.legend(loc="outside lower center", ncols=below)
            else:
                axes.legend(loc="best")
