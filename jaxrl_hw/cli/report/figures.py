"""The figures of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from jaxrl_hw.checkpointing.description import EVALUATION
from jaxrl_hw.cli.report.drawing import (
    COLOURS,
    QUIET,
    Figure,
    blank,
    count_axis,
    draw_line,
    finish,
    mark,
)
from jaxrl_hw.cli.report.run_record import RunRecord, is_number
from jaxrl_hw.cli.report.summary import REWARD, reward_terms
from jaxrl_hw.cli.report.time_spent import PARTS, boundaries

_TERMS = 6
"""Reward terms that are drawn as curves."""
_OWN_FIGURE = {
    *("iteration", "env_steps", "wall_s", "episode_return", "memory_bytes", "episodes_ended"),
    *("iterations_per_min", "env_steps_per_s", "episode_length"),
}
"""Keys of a row that other figures show, or that say nothing over time."""

_UNITS = (("hours", 3600), ("minutes", 60), ("seconds", 1))
"""Of training time: the largest of which a run has more than two."""

Found = dict[str, Any]
"""What `summary.summarize_run` says of the run."""


def curves(record: RunRecord) -> list[Figure]:
    """Return over env steps and over hours, episode length and speed, with session boundaries."""
    steps, wall = record.column("env_steps"), record.column("wall_s")
    starts = boundaries(record)
    over_steps = ("env steps", steps, [place for place, _ in starts])
    trained = record.last("wall_s")
    unit, scale = next((x for x in _UNITS if trained > 2 * x[1]), _UNITS[-1])
    places = [s / scale for _, s in starts if np.isfinite(s)]
    over_hours = (f"{unit} of training", wall / scale, places)
    wanted = (
        ("return-steps", "Return over env steps", "episode_return", over_steps),
        ("return-hours", f"Return over {unit}", "episode_return", over_hours),
        ("episode-length", "Episode length, control steps", "episode_length", over_steps),
        ("speed", "Env steps per second", "env_steps_per_s", over_hours),
    )
    found = []
    for name, title, key, (label, x, places) in wanted:
        values = record.column(key)
        if not np.isfinite(values).any():
            continue
        canvas, axes = blank(title)
        draw_line(axes, x, values, COLOURS[0])
        mark(axes, places)
        axes.set_xlabel(label)
        if label == "env steps":
            count_axis(axes.xaxis)
        if key == "env_steps_per_s":
            count_axis(axes.yaxis)
        finish(axes)
        found.append(Figure(name, f"{title}: each iteration, and a running mean", canvas))
    return found


def memory(record: RunRecord, found: Found) -> list[Figure]:
    """Predicted bytes by item beside what was measured, and the measured peak over the run."""
    return [*_memory_items(found), *_memory_over_steps(record, found)]


def _memory_items(found: Found) -> Iterator[Figure]:
    predicted = found["memory"]["predicted_bytes"]
    if not isinstance(predicted, dict):
        return
    items = {k: v / 1e6 for k, v in predicted.items() if k != "total" and is_number(v)}
    items = {name: size for name, size in items.items() if size >= 0.01}
    if not items:
        return
    items = dict(sorted(items.items(), key=lambda item: item[1]))
    items |= {"all, predicted": sum(items.values())}
    if peak := found["memory"]["peak_bytes"]:
        items["peak, measured"] = peak / 1e6
    canvas, axes = blank("Memory by item, MB", height=1.25)
    quiet = [COLOURS[0]] * (len(items) - 1) + [COLOURS[1] if peak else COLOURS[0]]
    bars = axes.barh(list(items), list(items.values()), color=quiet, height=0.7)
    texts = [f"{size:,.3g}" if size < 100 else f"{size:,.0f}" for size in items.values()]
    axes.bar_label(bars, texts, padding=3, fontsize=8)
    axes.margins(x=0.15)
    axes.grid(axis="y", visible=False)
    yield Figure("memory-items", "Predicted memory by item, and the measured peak", canvas)


def _memory_over_steps(record: RunRecord, found: Found) -> Iterator[Figure]:
    values = record.column("memory_bytes") / 1e6
    if not np.isfinite(values).any():
        return
    canvas, axes = blank("Memory over env steps, MB")
    axes.plot(record.column("env_steps"), values, color=COLOURS[1], label="peak, measured")
    predicted = found["memory"]["predicted_bytes"]
    total = predicted.get("total") if isinstance(predicted, dict) else None
    if is_number(total):
        axes.axhline(total / 1e6, color=COLOURS[0], linestyle=":", label="predicted")
    mark(axes, [place for place, _ in boundaries(record)])
    axes.set_ylim(0, None)
    axes.set_xlabel("env steps")
    count_axis(axes.xaxis)
    finish(axes)
    yield Figure("memory-steps", "Measured peak of memory over the run", canvas)


def time(found: Found) -> list[Figure]:
    """Each session's time by part, and an iteration's by part of the program."""
    return [*_sessions(found["sessions"]), *_profile(found["profile"] or {})]


def _sessions(sessions: Sequence[Found]) -> Iterator[Figure]:
    if not any(session[name] for session in sessions for name in PARTS):
        return
    canvas, axes = blank(
        "Time of each session, minutes", height=min(3.0, 0.75 + len(sessions) / 12)
    )
    numbers, left = [str(session["number"]) for session in sessions], np.zeros(len(sessions))
    for (name, text), colour in zip(PARTS.items(), COLOURS, strict=False):
        parts = np.array([(session[name] or 0.0) / 60 for session in sessions])
        axes.barh(numbers, parts, left=left, color=colour, label=text, height=0.6)
        left += parts
    axes.invert_yaxis()
    axes.set_ylabel("session")
    axes.grid(axis="y", visible=False)
    finish(axes, below=2)
    yield Figure("time-sessions", "Where the time of each session went", canvas)


def _profile(profile: Found) -> Iterator[Figure]:
    busy = profile.get("busy_s")
    if not isinstance(busy, dict):
        return
    parts = {k: 1e3 * v for k, v in busy.items() if is_number(v)}
    idle = profile.get("idle_s")
    parts |= {"idle": 1e3 * idle} if is_number(idle) else {}
    parts = dict(sorted(parts.items(), key=lambda item: item[1]))
    canvas, axes = blank("An iteration by part, ms (traced)")
    bars = axes.barh(list(parts), list(parts.values()), color=COLOURS[0], height=0.7)
    axes.bar_label(bars, [f"{value:.1f}" for value in parts.values()], padding=3, fontsize=8)
    axes.margins(x=0.15)
    axes.grid(axis="y", visible=False)
    yield Figure(
        "profile", "Where an iteration's time goes, summed over threads or streams", canvas
    )


def rewards(record: RunRecord) -> list[Figure]:
    """The largest reward terms over the run, and all of them at its end."""
    terms = reward_terms(record)
    if not terms:
        return []
    steps = record.column("env_steps")
    canvas, axes = blank(f"The {min(_TERMS, len(terms))} largest reward terms", height=1.25)
    for name, colour in zip(list(terms)[:_TERMS], COLOURS, strict=False):
        draw_line(axes, steps, record.column(REWARD + name), colour, name)
    axes.set_xlabel("env steps")
    count_axis(axes.xaxis)
    finish(axes, below=3)
    over = Figure("reward-steps", "The largest reward terms per control step", canvas)
    canvas, axes = blank("Reward terms at the end", height=max(0.8, 0.5 + len(terms) / 15))
    names = list(reversed(terms))
    colours = [COLOURS[2] if terms[name] >= 0 else COLOURS[4] for name in names]
    axes.barh(names, [terms[name] for name in names], color=colours, height=0.7)
    axes.axvline(0, color=QUIET, linewidth=1)
    axes.tick_params(axis="y", labelsize=7.5)
    axes.grid(axis="y", visible=False)
    return [
        over,
        Figure("reward-terms", "All terms per control step, mean of the last rows", canvas),
    ]


def evaluations(found: Found) -> list[Figure]:
    """The evaluations during training: robots that fell, and errors."""
    rows = found["evaluations"]
    figures = []
    wanted = (
        ("evaluation-falls", "Evaluations: robots that fell, of ten", ("falls", "pushed_falls")),
        (
            "evaluation-errors",
            "Evaluations: errors, m/s and rad/s",
            ("velocity_error", "pushed_velocity_error", "yaw_error"),
        ),
    )
    for name, title, keys in wanted:
        known = [key for key in keys if any(is_number(row.get(key)) for row in rows)]
        if not known:
            continue
        canvas, axes = blank(title)
        for key, colour in zip(known, COLOURS, strict=False):
            pairs = [(row["env_steps"], row[key]) for row in rows if is_number(row.get(key))]
            label = key.replace("_", " ")
            axes.plot(
                *zip(*pairs, strict=True), marker="o", markersize=4, color=colour, label=label
            )
        counts = name == "evaluation-falls"
        axes.set_ylim(0, max(2.0, axes.get_ylim()[1]) if counts else None)  # whole robots
        axes.yaxis.set_major_locator(MaxNLocator(integer=counts))
        axes.set_xlabel("env steps")
        count_axis(axes.xaxis)
        finish(axes)
        figures.append(Figure(name, title, canvas))
    return figures


def others(record: RunRecord) -> list[Figure]:
    """Every other number of the rows, such as losses: a small figure each."""
    steps, found = record.column("env_steps"), []
    for name in record.names:
        values = record.column(name)
        known = values[np.isfinite(values)]
        shown = name.startswith((REWARD, EVALUATION)) or name in _OWN_FIGURE
        if shown or not len(known) or known.min() == known.max():
            continue
        canvas, axes = blank(name, height=0.8)
        draw_line(axes, steps, values, COLOURS[0])
        axes.set_xlabel("env steps")
        count_axis(axes.xaxis)
        found.append(Figure(f"metric-{name.replace('/', '-')}", f"{name} over env steps", canvas))
    return found
