"""The comparison of algorithms: what a run is measured by, and what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw.errors import RunError


@pytest.fixture(scope="module")
def compare(script: Any) -> Iterator[Any]:
    with script("compare_algorithms") as module:
        yield module


@pytest.mark.slow
def test_a_training_is_watched_until_its_target_and_to_its_end(
    compare: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = compare.TASKS["cartpole_discrete"]
    early = task._replace(is_reached=lambda row: row["env_steps"] > 1000)
    monkeypatch.setitem(compare.TASKS, "cartpole_discrete", early)
    out = tmp_path / "found.json"
    kept = {"task": "cartpole_discrete", "algo": "dqn", "reached": None, "memory_bytes": 1}
    old = [{**kept, "seed": seed, "curve": [[1, 1, 2.0]]} for seed in (0, 1)]
    out.write_text(json.dumps({"runs": old}))
    words = ["--only", "cartpole_discrete", "--seeds", "1", "--timesteps", "3000"]
    compare.main([*words, "--out", str(out)])
    run, other = json.loads(out.read_text())["runs"]
    assert other == old[1]  # of a seed that was not repeated
    assert 1000 < run["reached"]["env_steps"] < 3000 <= run["env_steps"]
    assert 0 < run["first_iteration_s"] <= run["reached"]["wall_s"] <= run["wall_s"]
    assert run["memory_bytes"] > 1e8
    steps, seconds, _ = zip(*run["curve"], strict=True)
    assert list(steps) == sorted(steps)
    assert list(seconds) == sorted(seconds)
    assert out.with_suffix(".png").stat().st_size > 1000
    with pytest.raises(RunError):
        compare.trained(["--robot", "nonsense"], task)


def test_the_table_counts_the_seeds_that_reach_the_target(compare: Any) -> None:
    def run(seed: int, steps: int | None) -> dict[str, Any]:
        met = steps and {"env_steps": steps, "wall_s": 10.0 * (seed + 1)}
        curve = [[1, 1.0, 3.0 + seed]]
        same = {"task": "cartpole", "algo": "ppo", "memory_bytes": 500e6}
        return {**same, "seed": seed, "reached": met, "curve": curve}

    *_, line = compare.table([run(seed, 1_000_000 * (seed + 1)) for seed in range(4)])
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[3] == "4 of 4"
    assert cells[4].startswith("2.5M")  # the middle half of 1, 2, 3, 4
    assert "longest 40 s" in cells[5]
    *_, line = compare.table([run(0, 1_000_000), run(1, None)])
    assert "| 1 of 2 | 1M (mean of 1) |" in line
