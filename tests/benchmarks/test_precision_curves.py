"""The comparison of precisions: what is kept of a run, and how curves are compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def precision(script: Any) -> Iterator[Any]:
    with script("precision_curves") as module:
        yield module


def _run(algo: str, precision: str, seed: int, end: float) -> dict[str, Any]:
    curve = [[i, float(i), end * min(1.0, i / 10)] for i in range(20)]
    return {"algo": algo, "precision": precision, "seed": seed, "curve": curve}


def test_a_difference_beyond_the_seeds_has_a_small_p(precision: Any) -> None:
    same = [_run("ppo", p, seed, 400 + 10 * seed) for p in precision.PRECISIONS for seed in (0, 1)]
    other = [
        _run("sac", p, seed, end + seed)
        for p, end in zip(precision.PRECISIONS, (400, 200), strict=True)
        for seed in range(3)
    ]
    rows = [[c.strip() for c in line.split("|")] for line in precision.table([*same, *other])[2:]]
    assert [row[1] for row in rows] == ["ppo", "ppo", "sac", "sac"]
    assert float(rows[1][5]) == 1.0
    assert rows[1][3] == rows[1][4] == "405 ± 7"
    assert float(rows[3][5]) < 0.01


def test_one_seed_of_a_precision_makes_no_row(precision: Any) -> None:
    runs = [_run("ppo", "float32", 0, 1), _run("ppo", "bfloat16", 0, 1)]
    assert len(precision.table(runs)) == 2


@pytest.mark.parametrize(
    "words", [["--only", "ppp"], ["--seeds", "1"], ["--timesteps", "many"], ["--no-such-flag"]]
)
def test_bad_input_exits_with_2(precision: Any, words: list[str]) -> None:
    assert precision.main(words) == 2


@pytest.mark.slow
def test_both_precisions_are_trained_and_kept(precision: Any, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    words = ["--only", "sac", "--seeds", "2", "--timesteps", "3000", "--out", str(out)]
    assert precision.main(words) == 0
    runs = json.loads(out.read_text())["runs"]
    assert {(run["precision"], run["seed"]) for run in runs} == {
        (p, seed) for p in precision.PRECISIONS for seed in (0, 1)
    }
    assert all(run["env_steps"] >= 3000 for run in runs)
