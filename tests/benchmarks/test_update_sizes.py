"""Many small updates beside few large ones: what is trained, kept and compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="module")
def sizes(script: Any) -> Iterator[Any]:
    with script("update_sizes") as module:
        yield module


def _run(size: str, seed: int, met: int | None) -> dict[str, Any]:
    reached = None if met is None else {"env_steps": met, "wall_s": met / 1000}
    curve = [[1000, 1.0, 10.0], [90_000, 9.0, 400.0]]
    return {"size": size, "seed": seed, "reached": reached, "cpu_s": 20.0, "curve": curve}


def test_a_size_that_never_gets_there_has_no_time(sizes: Any) -> None:
    runs = [_run("4x2048", 0, None), _run("64x128", 0, 40_000), _run("64x128", 1, 60_000)]
    rows = [[c.strip() for c in line.split("|")] for line in sizes.table(runs)[2:]]
    assert [row[1:4] for row in rows] == [
        ["64 x 128", "2 of 2", "50K (mean of 2)"],
        ["4 x 2048", "0 of 1", "-"],
    ]


@pytest.mark.parametrize(
    "words", [["--sizes", "64"], ["--sizes", "0x8"], ["--seeds", "0"], ["--timesteps", "many"]]
)
def test_bad_input_exits_with_2(sizes: Any, words: list[str]) -> None:
    assert sizes.main(words) == 2


@pytest.mark.slow
def test_each_size_is_trained_with_as_many_gradient_steps(sizes: Any, tmp_path: Path) -> None:
    out = tmp_path / "found.json"
    words = ["--sizes", "8x64,2x256", "--seeds", "1", "--timesteps", "2000", "--out", str(out)]
    assert sizes.main(words) == 0
    runs = json.loads(out.read_text())["runs"]
    assert {run["size"] for run in runs} == {"8x64", "2x256"}
    for run in runs:
        steps, batch = run["size"].split("x")
        assert f"--sac.gradient-steps {steps} --sac.batch-size {batch}" in run["flags"]
        assert run["env_steps"] >= 2000
