"""Runs compared: groups of the same settings, their spread over seeds, and which differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from jaxrl_hw.checkpointing.description import EVALUATION
from jaxrl_hw.cli.report import statistics
from jaxrl_hw.cli.report.groups import (
    Group,
    make_groups,
    why_not_hardware,
    why_not_rewards,
    why_not_task,
)
from jaxrl_hw.cli.report.run_record import RunRecord
from jaxrl_hw.cli.report.summary import final_mean

_POINTS = 200
"""Of a curve over seeds."""


class Measure(NamedTuple):
    """One figure of a run."""

    key: str
    text: str
    of: Callable[[RunRecord, float], float | None]
    """Of a run up to a number of env steps."""
    why_not: Callable[[RunRecord, RunRecord], str]
    """Why it cannot be compared between two runs, "" where it can."""


class Curve(NamedTuple):
    """The mean return of a group's runs."""

    label: str
    env_steps: np.ndarray  # [D]
    mean: np.ndarray  # [D]
    half: np.ndarray | None  # [D] half of the 95 % band; None of one run


@dataclass(frozen=True)
class Comparison:
    """What the page and summary.json say of several runs."""

    groups: list[dict[str, Any]]
    """Per group: label, robot, runs, seeds, env_steps (up to which it counts), and per measure its
    `statistics.spread`."""
    tests: list[dict[str, Any]]
    """Per measure and pair of groups: a, b, `statistics.difference`, p_holm, significant."""
    not_compared: list[str]
    curves: list[list[Curve]]
    """Of groups whose returns can be compared, together."""


def _up_to(record: RunRecord, name: str, env_steps: float) -> np.ndarray:
    return record.column(name)[record.column("env_steps") <= env_steps]


def _final(record: RunRecord, env_steps: float) -> float | None:
    return final_mean(_up_to(record, "episode_return", env_steps))


def _mean(record: RunRecord, env_steps: float) -> float | None:
    values = _up_to(record, "episode_return", env_steps)
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None


def _evaluated(name: str) -> Callable[[RunRecord, float], float | None]:
    def last(record: RunRecord, env_steps: float) -> float | None:
        values = _up_to(record, f"{EVALUATION}{name}", env_steps)
        known = values[np.isfinite(values)]
        return float(known[-1]) if len(known) else None

    return last


def _speed(record: RunRecord, env_steps: float) -> float | None:
    values = record.column("env_steps_per_s")
    return float(np.nanmedian(values)) if np.isfinite(values).any() else None


def _memory(record: RunRecord, env_steps: float) -> float | None:
    values = record.column("memory_bytes")
    return float(np.nanmax(values)) / 1e6 if np.isfinite(values).any() else None


MEASURES = (
    Measure("final_return", "final return", _final, why_not_rewards),
    Measure("mean_return", "return, mean over training", _mean, why_not_rewards),
    Measure("velocity_error", "velocity error, m/s", _evaluated("velocity_error"), why_not_task),
    Measure("falls", "robots that fell", _evaluated("falls"), why_not_task),
    Measure("pushed_falls", "robots that fell, pushed", _evaluated("pushed_falls"), why_not_task),
    Measure("env_steps_per_s", "env steps/s", _speed, why_not_hardware),
    Measure("memory_mb", "peak memory, MB", _memory, why_not_hardware),
)


def compare(records: Sequence[RunRecord]) -> Comparison:
    """Compare runs. Groups of one robot and task are compared at the env steps that all of them
    have reached; a run without a row is named and left out."""
    left_out = [
        f"{record.name}: it has no iteration yet" for record in records if record.just_begun
    ]
    left_out += [f"{record.name}: {text}" for record in records[1:] for text in record.problems]
    groups = make_groups([record for record in records if record.rows]) if records else []
    reached = [_reached(group, groups) for group in groups]
    values = [_values(group, steps) for group, steps in zip(groups, reached, strict=True)]
    tests, refused = _tests(groups, values)
    described = [
        {
            "label": group.label,
            "robot": group.robot,
            "runs": group.names,
            "seeds": [record.settings.get("seed") for record in group.records],
            "env_steps": int(steps),
            "measures": {key: statistics.spread(x) for key, x in found.items() if x},
        }
        for group, steps, found in zip(groups, reached, values, strict=True)
    ]
    return Comparison(described, tests, [*left_out, *refused], _curves(groups))


def _reached(group: Group, groups: Sequence[Group]) -> float:
    """Env steps that all runs of a group's robot and task have reached."""
    first = group.records[0]
    near = [g for g in groups if g is group or not why_not_task(first, g.records[0])]
    return min(record.last("env_steps") for g in near for record in g.records)


def _values(group: Group, env_steps: float) -> dict[str, list[float]]:
    """Each measure of every run that has it."""
    found = {m.key: [m.of(record, env_steps) for record in group.records] for m in MEASURES}
    return {key: [x for x in values if x is not None] for key, values in found.items()}


def _tests(
    groups: Sequence[Group], values: Sequence[dict[str, list[float]]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row per measure and pair that can be compared, and what cannot be."""
    tests, refused = list[dict[str, Any]](), dict[tuple[str, str], list[str]]()
    for measure in MEASURES:
        rows: list[dict[str, Any]] = []
        for i, j in combinations(range(len(groups)), 2):
            pair = {"a": groups[i].label, "b": groups[j].label}
            one, other = values[i][measure.key], values[j][measure.key]
            if not one or not other:
                continue
            if reason := measure.why_not(groups[i].records[0], groups[j].records[0]):
                names = " and ".join(pair.values())
                refused.setdefault((names, reason), []).append(measure.text)
            else:
                rows.append({"measure": measure.key, "text": measure.text, **pair})
                rows[-1] |= statistics.difference(one, other)
        known = [row for row in rows if row["p"] is not None]
        for row, p in zip(known, statistics.holm([row["p"] for row in known]), strict=True):
            row |= {"p_holm": p, "significant": p < statistics.ALPHA}
        tests += [{"p_holm": None, "significant": None, **row} for row in rows]
    lines = [
        f"{names}: {why}. Not compared: {'; '.join(m)}." for (names, why), m in refused.items()
    ]
    return tests, lines


def _curves(groups: Sequence[Group]) -> list[list[Curve]]:
    """The curves of the groups, those together whose returns can be compared."""
    families: list[list[Group]] = []
    for group in groups:
        home = next(
            (f for f in families if not why_not_rewards(f[0].records[0], group.records[0])), None
        )
        if home is None:
            families.append([group])
        else:
            home.append(group)
    drawn = [[c for group in family if (c := _curve(group))] for family in families]
    return [curves for curves in drawn if curves]


def _curve(group: Group) -> Curve | None:
    """The mean over a group's runs at env steps that all of them have; None without a return."""
    lines = []
    for record in group.records:
        steps, values = record.column("env_steps"), record.column("episode_return")
        known = np.isfinite(values)
        if known.any():
            lines.append((steps[known], values[known]))
    if not lines:
        return None
    start, end = max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines)
    if end < start:
        return None
    grid = np.linspace(start, end, _POINTS)
    table = np.stack([np.interp(grid, x, y) for x, y in lines])
    half = statistics.half_width(table) if len(table) > 1 else None
    return Curve(group.label, grid, table.mean(axis=0), half)
