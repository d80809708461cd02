"""Whether `--memory-limit` is kept: random limits for random small configurations."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import memory_runs
from memory_runs import Row

from jaxrl_hw.cli.command import BAD_INPUT
from jaxrl_hw.planning.benchmark import Outcome, train

ROBOTS = ("cartpole", "g1_12dof", "go1")
LIMITS_MB = (600, 1600)
"""From less than compiling takes up to what thousands of environments take."""
UNROLLS = (8, 12, 16, 24, 32, 48)
WIDTHS = (32, 64, 128, 256)
MOST_ENVS = 100_000
ITERATIONS = 3
ENDED = ("kept", "refused", "exceeded", "exceeded while compiling", "failed")
"""How a trial may end. Refused: with the least limit that would do; that is as good as kept."""
GOOD = ("kept", "refused")
WELL_USED = 80.0
"""Percent of the limit that a run is to use where nothing but the limit bounds it."""


class Trial(NamedTuple):
    """A limit and what is to be trained under it."""

    robot: str
    limit_mb: int
    unroll: int
    policy: tuple[int, ...]
    value: tuple[int, ...]

    def flags(self, physics: str) -> list[str]:
        return [
            *("--robot", self.robot, "--physics", physics, "--num-envs", "auto"),
            *("--memory-limit", f"{self.limit_mb}MB", "--max-envs", str(MOST_ENVS)),
            *("--iterations", str(ITERATIONS), "--ppo.epochs", "2"),
            *("--ppo.unroll", str(self.unroll)),
            *("--net.policy", *map(str, self.policy), "--net.value", *map(str, self.value)),
        ]


def drawn(number: int, seed: int, limits_mb: Sequence[int] = LIMITS_MB) -> list[Trial]:
    """That many trials; the same for the same seed, and the first ones the same for any number."""
    rng = random.Random(seed)

    def widths() -> tuple[int, ...]:
        return tuple(rng.choice(WIDTHS) for _ in range(rng.randint(1, 3)))

    def trial() -> Trial:
        robot, limit = rng.choice(ROBOTS), rng.randint(*limits_mb)
        return Trial(robot, limit, rng.choice(UNROLLS), widths(), widths())

    return [trial() for _ in range(number)]


def measured(trials: Sequence[Trial], physics: str) -> Iterator[Row]:
    """A row for each trial, every one as a new user's first run."""
    for trial in trials:
        with memory_runs.caching_in(None):
            done = train(trial.flags(physics))
        yield {**trial._asdict(), "physics": physics, **judged(trial, done)}


def judged(trial: Trial, done: Outcome) -> Row:
    """What became of a trial: how it `ENDED`, and the figures of a run."""
    if done.reason:
        named = done.code == BAD_INPUT and "give at least --memory-limit" in done.reason
        return {"ended": "refused" if named else "failed", "reason": done.reason}
    limit, used = 1_000_000 * trial.limit_mb, done.plan["measured_bytes"]
    limited = any("--memory-limit" in reason for reason in done.plan["reasons"])
    if used["peak"] is None:
        return {"ended": "failed", "reason": "no figure of the memory in use"}
    ended = "kept" if (used["compile_peak"] or 0) <= limit else "exceeded while compiling"
    return {
        "ended": ended if used["peak"] <= limit else "exceeded",
        "num_envs": done.plan["num_envs"],
        "peak_bytes": used["peak"],
        "compile_peak_bytes": used["compile_peak"],
        "percent_of_limit": round(100 * used["peak"] / limit, 1),
        "bound_by_memory": limited and done.plan["num_envs"] < 0.99 * MOST_ENVS,
    }


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """How many ended how, and how well the limit was used where it was what bound them."""
    ended = [row["ended"] for row in rows]
    bound = [row["percent_of_limit"] for row in rows if row.get("bound_by_memory")]
    return {
        **{name: ended.count(name) for name in ENDED},
        "bound_by_memory": len(bound),
        "bound_and_well_used": sum(percent > WELL_USED for percent in bound),
    }
