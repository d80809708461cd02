"""The figures of versus_peers.py: of a run, of a side over its rounds, and as a table."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from peer_sizes import COMPILING, OURS, steps_after
from timed_process import Followed

EPISODES = 100
"""Of which the mean return counts: Brax's own number."""


class Result(NamedTuple):
    """One run."""

    updates_per_s: float | None  # of SAC and DQN, gradient steps
    env_steps_per_s: float | None
    cpu_ms_per_update: float | None  # of SAC and DQN, with the env steps between two of them
    first_chunk_s: float | None  # from the process's start; None where it was ended before
    to_return_s: float | None  # likewise
    to_return_cpu_s: float | None  # likewise, of all threads
    to_return_env_steps: int | None
    peak_resident_bytes: int


class LastEpisodes:
    """The mean return of the last `EPISODES` episodes, as rows of a side tell it."""

    def __init__(self) -> None:
        self._returns: list[tuple[int, float]] = []

    def after(self, row: Mapping[str, Any]) -> float | None:
        """The mean after a row; None before so many have ended."""
        if "return" in row:  # the peer has it
            return float(row["return"])
        if row.get("episodes_ended"):
            self._returns.append((row["episodes_ended"], row["episode_return"]))
        count = total = 0.0
        for ended, mean in reversed(self._returns):
            taken = min(ended, EPISODES - count)
            count, total = count + taken, total + taken * mean
        return total / EPISODES if count >= EPISODES else None


def _reaches(sizes: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], bool]:
    """What tells, row by row in order, whether the return is reached."""
    episodes = LastEpisodes()

    def reaches(row: Mapping[str, Any]) -> bool:
        found = episodes.after(row)
        return "to_return" in sizes and found is not None and found >= sizes["to_return"]

    return reaches


def enough_of(
    sizes: Mapping[str, Any], limit: float
) -> Callable[[list[dict[str, Any]], float], bool]:
    reaches = _reaches(sizes)

    def enough(rows: list[dict[str, Any]], seconds: float) -> bool:
        met = [reaches(row) for row in rows]
        return "to_return" in sizes and (any(met) or seconds > limit)

    return enough


def measured(done: Followed, sizes: Mapping[str, Any]) -> Result:
    """The figures of a run that has ended."""
    start = steps_after(sizes, COMPILING)
    late = [row for row in done.rows if row["env_steps"] >= start]
    seen = [one for one in done.seen if done.rows[one.rows - 1]["env_steps"] >= start]
    rate = cpu = None
    if len(late) > 1:
        steps, seconds = (late[-1][name] - late[0][name] for name in ("env_steps", "wall_s"))
        rate = steps / seconds
    updates = sizes["updates"] / sizes["num_envs"] if "replay" in sizes else None
    if updates and len(seen) > 1:
        steps = done.rows[seen[-1].rows - 1]["env_steps"] - done.rows[seen[0].rows - 1]["env_steps"]
        cpu = 1e3 * (seen[-1].cpu_s - seen[0].cpu_s) / (steps * updates)
    one = done.first(lambda row: row["env_steps"] >= steps_after(sizes, 1))
    reaches = _reaches(sizes)
    steps_met = next((row["env_steps"] for row in done.rows if reaches(row)), None)
    met = None if steps_met is None else done.first(lambda row: row["env_steps"] >= steps_met)
    return Result(
        rate * updates if rate and updates else None,
        rate,
        cpu,
        None if one is None else one.seconds,
        None if met is None else met.seconds,
        None if met is None else met.cpu_s,
        steps_met,
        done.peak_resident_bytes,
    )


MORE_IS_BETTER = {
    "updates_per_s": True,
    "env_steps_per_s": True,
    "cpu_ms_per_update": False,
    "to_return_s": False,
    "to_return_cpu_s": False,
}
"""Figures of which a round's ratio is kept, and whether more is better."""


def row(name: str, side: str, runs: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """Medians of a side, and how many times as good this library was in the same round."""
    found: dict[str, Any] = {"case": name, "side": side}
    for field in Result._fields:
        values = [value for one in runs[side] if (value := getattr(one, field)) is not None]
        found[field] = statistics.median(values) if values else None
    found["times_this"] = {
        field: _ratios(field, more, runs.get(OURS, ()), runs[side])
        for field, more in MORE_IS_BETTER.items()
    }
    found["runs"] = [one._asdict() for one in runs[side]]
    return found


def _ratios(
    field: str, more: bool, ours: Sequence[Result], peers: Sequence[Result]
) -> list[float] | None:
    """[median, least, most] over the rounds that have both; None where none has."""
    pairs = [(getattr(a, field), getattr(b, field)) for a, b in zip(ours, peers, strict=False)]
    ratios = [a / b if more else b / a for a, b in pairs if a and b]
    return [statistics.median(ratios), min(ratios), max(ratios)] if ratios else None


def in_words(result: Result) -> str:
    """A run's figures in a line."""
    parts = [
        f"{getattr(result, field):,.{digits}f} {unit}"
        for field, digits, unit in (
            ("updates_per_s", 0, "updates/s"),
            ("env_steps_per_s", 0, "env steps/s"),
            ("cpu_ms_per_update", 2, "ms of CPU per update"),
            ("first_chunk_s", 0, "s to the first chunk"),
            ("to_return_s", 0, "s to the return"),
            ("to_return_cpu_s", 0, "s of CPU to the return"),
        )
        if getattr(result, field) is not None
    ]
    return ", ".join(parts)


_COLUMNS = {
    "updates_per_s": "updates/s",
    "env_steps_per_s": "env steps/s",
    "cpu_ms_per_update": "CPU ms per update",
    "first_chunk_s": "first chunk, s",
    "to_return_s": "to the return, s",
    "to_return_cpu_s": "CPU s to the return",
}


def table(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of Markdown: a row for each side of each case."""
    names = [*_COLUMNS.values(), "this library, times as fast", "by CPU time"]
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for one in rows:
        cells, ratios = [_shown(one[name]) for name in _COLUMNS], one["times_this"]
        cells.append(_times(ratios["updates_per_s"] or ratios["to_return_s"]))
        cells.append(_times(ratios["cpu_ms_per_update"] or ratios["to_return_cpu_s"]))
        lines.append(f"| {one['case']}, {one['side']} | {' | '.join(cells)} |")
    return lines


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.{0 if value >= 10 else 2}f}"


def _times(ratios: Sequence[float] | None) -> str:
    return "-" if ratios is None else "{:.2f} ({:.2f} to {:.2f})".format(*ratios)
