"""The figures of a comparison: curves with bands, and the groups' spread."""

from __future__ import annotations

from typing import Any

from jaxrl_hw.cli.report.comparison import MEASURES, Comparison, Curve, Measure
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
    for measure in MEASURES:
        sets = _compared(measure.key, comparison)
        for i, groups in enumerate(sets, 1):
            name = f"compare-{measure.key.replace('_', '-')}{f'-{i}' if len(sets) > 1 else ''}"
            drawn.append(_spread(name, measure, groups, colours))
    return drawn


def _compared(key: str, comparison: Comparison) -> list[list[dict[str, Any]]]:
    """The groups between which a measure is compared, those together that are."""
    pairs = {(test["a"], test["b"]) for test in comparison.tests if test["measure"] == key}
    sets: list[list[dict[str, Any]]] = []
    for group in comparison.groups:
        home = next((one for one in sets if (one[0]["label"], group["label"]) in pairs), None)
        if home is None:
            sets.append([group])
        else:
            home.append(group)
    return [groups for groups in sets if len(groups) > 1]


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
    name: str, measure: Measure, groups: list[dict[str, Any]], colours: dict[str, str]
) -> Figure:
    """Each group's mean with its 95 % interval."""
    title = measure.text[0].upper() + measure.text[1:]
    canvas, axes = blank(title, height=0.4 + 0.18 * len(groups))
    for place, group in enumerate(groups):
        spread = group["measures"][measure.key]
        half = 0.0 if spread["low"] is None else spread["mean"] - spread["low"]
        style: Any = {"color": colours[group["label"]], "capsize": 3, "markersize": 5}
        axes.errorbar(spread["mean"], place, xerr=half, fmt="o", **style)
        # above its interval, not beside the axes: it may be long
        where: Any = {"transform": axes.get_yaxis_transform(), "va": "bottom", "fontsize": 8}
        axes.text(0.02, place - 0.18, group["label"], **where)
    axes.set_yticks([])
    axes.set_ylim(len(groups) - 0.5, -0.75)
    axes.grid(axis="y", visible=False)
    if measure.key == "env_steps_per_s":
        count_axis(axes.xaxis)
    return Figure(name, f"{measure.text}: mean and 95 % interval over seeds", canvas)
