"""The figures of a comparison: curves with bands, and the groups' spread."""

from __future__ import annotations

from typing import Any

from jaxrl_hw.cli.report.comparison import MEASURES, Comparison, Curve
from jaxrl_hw.cli.report.drawing import COLOURS, Figure, blank, count_axis, finish


def comparison_figures(comparison: Comparison) -> list[Figure]:
    """Curves of every set of groups whose returns can be compared, and each measure's spread."""
    if not comparison.groups:
        return []
    labels = [group["label"] for group in comparison.groups]
    colours = {label: COLOURS[i % len(COLOURS)] for i, label in enumerate(labels)}
    many = len(comparison.curves) > 1
    drawn = [
        _curves(curves, colours, f"compare-return{f'-{i}' if many else ''}")
        for i, curves in enumerate(comparison.curves, 1)
    ]
    spreads = (_spread(m.key, m.text, comparison.groups, colours) for m in MEASURES)
    return [*drawn, *(figure for figure in spreads if figure is not None)]


def _curves(curves: list[Curve], colours: dict[str, str], name: str) -> Figure:
    canvas, axes = blank("Return, mean over seeds", height=1.15)
    for curve in curves:
        colour = colours[curve.label]
        axes.plot(curve.env_steps, curve.mean, color=colour, label=curve.label)
        if curve.half is not None:
            low, high = curve.mean - curve.half, curve.mean + curve.half
            axes.fill_between(curve.env_steps, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set_xlabel("env steps")
    count_axis(axes.xaxis)
    finish(axes, below=1)
    text = f"Return of {'; '.join(curve.label for curve in curves)}: mean and 95 % band over seeds"
    return Figure(name, text, canvas)


def _spread(
    key: str, text: str, groups: list[dict[str, Any]], colours: dict[str, str]
) -> Figure | None:
    """Each group's mean with its 95 % interval; None where fewer than two groups have the measure."""
    known = [group for group in groups if key in group["measures"]]
    if len(known) < 2:
        return None
    canvas, axes = blank(text[0].upper() + text[1:], height=0.4 + 0.18 * len(known))
    for place, group in enumerate(known):
        spread = group["measures"][key]
        half = 0.0 if spread["low"] is None else spread["mean"] - spread["low"]
        style = {"color": colours[group["label"]], "capsize": 3, "markersize": 5}
        axes.errorbar(spread["mean"], place, xerr=half, fmt="o", **style)
        # above its interval, not beside the axes: it may be long
        where = {"transform": axes.get_yaxis_transform(), "va": "bottom", "fontsize": 8}
        axes.text(0.02, place - 0.18, group["label"], **where)
    axes.set_yticks([])
    axes.set_ylim(len(known) - 0.5, -0.75)
    axes.grid(axis="y", visible=False)
    if key == "env_steps_per_s":
        count_axis(axes.xaxis)
    return Figure(f"compare-{key.replace('_', '-')}", f"{text}: mean and 95 % interval", canvas)
