"""The tables of iterations_vs_memory.py, a line at a time: a row may take minutes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_budgets import ENDED, WELL_USED

from jaxrl_hw.planning.memory_model import ESTIMATED

Row = dict[str, Any]

HEAD = (
    f"{'num_envs':>8} {'iterations':>10} {'env steps':>10} {'minutes per':>11} {'predicted':>10} "
    f"{'measured':>10} {'error':>7} {'compiling':>10}  planned before\n"
    f"{'':8} {'per minute':>10} {'per second':>10} {'1000 iter.':>11} {'memory':>10} "
    f"{'memory':>10} {'':7} {'peak':>10}  compiling"
)


def line(row: Row) -> str:
    """A row of the sweep."""
    if "failed" in row:
        return f"{row['num_envs']:8,} {row['failed']}"
    error = row["error_percent"]
    return (
        f"{row['num_envs']:8,} {row['iterations_per_min']:10,.1f} {row['env_steps_per_s']:10,} "
        f"{row['minutes_per_1000_iterations']:11,.1f} "
        f"{megabytes(row['predicted_bytes']['total']):>10} {megabytes(row['measured_bytes']):>10} "
        f"{'-' if error is None else f'{error:+.1f} %':>7} "
        f"{megabytes(row['compile_peak_bytes']):>10}  {_planned(row)}"
    )


def _planned(row: Row) -> str:
    """The first row's plan is an estimate; a later one's uses the figures of those before."""
    by = "from sizes" if row["planned_from"] == ESTIMATED else "by compiler"
    mark = ", not verified" if row["predicted_from"] == ESTIMATED else ""
    return f"{megabytes(row['planned_bytes'])} {by}{mark}"


def grown(growth: Mapping[str, Any] | None) -> str:
    """The growth check in words."""
    if growth is None:
        return "memory's growth: needs two rows"
    error = growth["error_percent"]
    off = "no measured growth to compare with" if error is None else f"{error:+.1f} %"
    return (
        f"from {growth['from_num_envs']:,} to {growth['to_num_envs']:,} environments: predicted "
        f"growth {megabytes(growth['predicted_bytes'])}, measured "
        f"{megabytes(growth['measured_bytes'])}: {off}"
    )


BUDGET_HEAD = (
    f"{'limit':>9} {'robot':9} {'unroll':>6} {'policy':12} {'value':12} {'num_envs':>8} "
    f"{'measured':>10} {'of limit':>8} {'compiling':>10}  under"
)


def budget_line(row: Row) -> str:
    """A row of the random limits."""
    policy, value = ("-".join(map(str, row[name])) for name in ("policy", "value"))
    limit = f"{row['limit_mb']:,} MB"
    begin = f"{limit:>9} {row['robot']:9} {row['unroll']:6} {policy:12} {value:12}"
    if "reason" in row:
        return f"{begin} {row['ended']}: {row['reason']}"
    under = "yes" if row["ended"] == "kept" else row["ended"].replace("exceeded", "NO", 1)
    why = "" if row["bound_by_memory"] else ", not bound by memory"
    return (
        f"{begin} {row['num_envs']:8,} {megabytes(row['peak_bytes']):>10} "
        f"{row['percent_of_limit']:6.1f} % {megabytes(row['compile_peak_bytes']):>10}  {under}{why}"
    )


def budget_summary(counts: Mapping[str, int]) -> str:
    """How the random limits were kept, in words."""
    ended = ", ".join(f"{counts[name]} {name}" for name in ENDED)
    return (
        f"{sum(counts[name] for name in ENDED)} limits: {ended}; of the "
        f"{counts['bound_by_memory']} runs bound by memory, {counts['bound_and_well_used']} used "
        f"more than {WELL_USED:.0f} % of their limit"
    )


def megabytes(count: float | None) -> str:
    return "-" if count is None else f"{count / 1e6:,.0f} MB"
