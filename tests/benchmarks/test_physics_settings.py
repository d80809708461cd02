"""The bounds of MJX's solver that robots name are those that the measured table gives."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import get_robot
from jaxrl_hw.envs.physics.mjx import BOUNDS
from jaxrl_hw.envs.robots import robot_names

TABLE = Path(__file__).resolve().parents[2] / "benchmarks" / "results" / "physics-settings.json"


@pytest.fixture(scope="module")
def table() -> dict[str, list[dict[str, Any]]]:
    """The rows that were measured, by robot."""
    rows = defaultdict(list)
    for row in json.loads(TABLE.read_text())["rows"]:
        rows[row["robot"]].append(row)
    return dict(rows)


@pytest.fixture(scope="module")
def enough(script) -> Iterator[Callable[..., tuple[int, int]]]:
    with script("physics_settings") as bench:
        yield bench.enough


def test_a_robots_bounds_are_the_least_that_are_exact_enough(table, enough) -> None:
    assert len(table) > 1
    for name, rows in table.items():
        assert (get_robot(name).mjx_bounds or BOUNDS) == enough(rows), name


def test_a_robot_that_was_not_measured_names_no_bounds(table) -> None:
    others = [name for name in robot_names() if name not in table]
    assert [name for name in others if get_robot(name).mjx_bounds is not None] == []


def test_fewer_iterations_count_first_and_inexact_ones_not_at_all(enough) -> None:
    def row(iterations: int, trips: int, off: float, solver: str = "newton") -> dict[str, Any]:
        return {"solver": solver, "iterations": iterations, "line_search": trips, "off": off}

    exact = [row(10, 3, 0.0), row(9, 3, 0.0), row(9, 2, 0.001), row(8, 3, 0.002)]
    assert enough(exact) == (9, 2)
    assert enough([*exact, row(8, 1, 0.0, "mjx")]) == (9, 2)
    assert enough([*exact, row(7, 3, 0.0)]) == (9, 2), "too few for a robot that hardly moves"
    # where even the highest bounds are off often, few more may be
    assert enough([row(16, 3, 0.004), row(12, 3, 0.0045), row(8, 3, 0.006)]) == (12, 3)
