"""How long a run takes, and in how many sessions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import preset_config
from jaxrl_hw.planning.duration import Duration, duration

BASE = preset_config("cartpole")
CONFIG = replace(
    BASE, num_envs=100, timesteps=1_000_000, iterations=0, ppo=replace(BASE.ppo, unroll=10)
)


def test_the_steps_at_their_speed_and_the_compiling() -> None:
    found = duration(CONFIG, Path("none"), 0, 500.0, 30.0)
    assert found is not None
    assert found.env_steps == 1_000_000
    assert found.total_s == 2000.0 + 30.0
    assert found.sessions == 1
    by_iterations = replace(CONFIG, timesteps=0, iterations=7)
    assert duration(by_iterations, Path("none"), 0, 500.0, None).env_steps == 7000  # type: ignore[union-attr]
    assert duration(CONFIG, Path("none"), 0, None, 30.0) is None


@pytest.mark.parametrize(
    ("limit", "sessions"),
    [("1h", 1), ("2090s", 1), ("2050s", 2), ("560s", 4), ("61s", 2000), ("60s", None)],
)
def test_every_session_compiles_and_keeps_time_for_its_last_save(
    limit: str, sessions: int | None
) -> None:
    found = duration(replace(CONFIG, time_limit=limit), Path("none"), 0, 500.0, 30.0)
    assert found is not None
    assert found.sessions == sessions
    assert found.total_s == 2000.0 + 30.0 * (sessions or 1)


def test_of_a_run_that_is_continued_only_the_rest_counts(new_run, tmp_path: Path) -> None:
    folder = new_run(tmp_path / "run", goal=40, rows=20)  # 16 environments
    config = replace(CONFIG, num_envs=16, timesteps=0, iterations=40)
    found = duration(config, folder, 20, 16.0, None)
    assert found is not None
    assert found.env_steps == 20 * 16 * 10
    assert "not counted" in str(found)


def test_the_text_has_the_figures() -> None:
    text = str(Duration(11_000_000, 3000.0, 45.0, 3600.0))
    for figure in ("1h 02m", "11,000,000", "3,000/s", "45 s", "2 sessions of 1h 00m"):
        assert figure in text
