"""Where a run ends: at an env step, at an iteration, or at whichever comes first."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import make_plan
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.cli.run_summary import summarize
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.train import main

COMMON = [
    *("--robot", "cartpole", "--physics", "native", "--no-tensorboard", "--ppo.epochs", "1"),
    *("--net.policy", "8", "--net.value", "8", "--cartpole.episode-s", "1"),
]
SMALL = [*COMMON, "--num-envs", "8", "--ppo.unroll", "4", "--ppo.minibatch-size", "16"]
"""32 env steps an iteration."""

pytestmark = pytest.mark.slow


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def config_of(folder: Path) -> Any:
    return json.loads((folder / "config.json").read_text())["config"]


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to 150 env steps. Tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    assert main([*SMALL, "--run-dir", str(folder), "--timesteps", "150"]) == 0
    return folder


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def test_a_run_ends_with_the_first_iteration_that_reaches_its_env_steps(whole: Path) -> None:
    assert [row["env_steps"] for row in rows(whole)] == [32, 64, 96, 128, 160]
    assert [path.name for path in (whole / "checkpoints").iterdir()] == ["5"]
    (session,) = map(json.loads, (whole / "sessions.jsonl").read_text().splitlines())
    assert session["ended"] == "goal"
    assert (config_of(whole)["timesteps"], config_of(whole)["iterations"]) == (150, 0)


@pytest.mark.parametrize("goal", ["150", "129", "160"])
def test_the_same_command_has_nothing_left_to_do(whole: Path, goal: str) -> None:
    before = files(whole)
    assert main([*SMALL, "--run-dir", str(whole), "--timesteps", goal]) == 0
    assert main(["--robot", "cartpole", "--run-dir", str(whole)]) == 0
    assert files(whole) == before


def test_a_list_of_runs_shows_the_goal_in_iterations(whole: Path, tmp_path: Path) -> None:
    found = summarize(whole)
    assert (found.status, found.goal, found.saved) == ("done", 5, 5)
    folder = tmp_path / "half"
    both = ["--timesteps", "10k", "--iterations", "4"]
    assert main([*SMALL, "--run-dir", str(folder), *both, "--time-limit", "1s"]) == 75
    found = summarize(folder)
    assert (found.status, found.goal, found.saved) == ("ready", 4, 1)


@pytest.mark.parametrize("goal", ["1", "100", "128"])
def test_env_steps_that_are_passed_already_are_refused_with_the_numbers(
    goal: str, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files(whole)
    assert main([*SMALL, "--run-dir", str(whole), "--timesteps", goal]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert f"--timesteps {goal}" in err
    assert "160" in err
    assert files(whole) == before


@pytest.mark.parametrize(("timesteps", "iterations", "last"), [("230", 20, 8), ("10k", 7, 7)])
def test_of_two_goals_the_first_ends_the_run(
    timesteps: str, iterations: int, last: int, copied: Path
) -> None:
    both = ["--timesteps", timesteps, "--iterations", str(iterations)]
    assert main([*SMALL, "--run-dir", str(copied), *both]) == 0
    assert rows(copied)[-1]["iteration"] == last
    before = files(copied)
    assert main([*SMALL, "--run-dir", str(copied), *both]) == 0
    assert files(copied) == before


def test_a_goal_given_alone_takes_the_place_of_the_other(copied: Path) -> None:
    assert main([*SMALL, "--run-dir", str(copied), "--iterations", "7"]) == 0
    assert rows(copied)[-1]["iteration"] == 7
    assert (config_of(copied)["timesteps"], config_of(copied)["iterations"]) == (0, 7)
    assert main([*SMALL, "--run-dir", str(copied), "--timesteps", "256"]) == 0
    assert rows(copied)[-1]["iteration"] == 8
    assert (config_of(copied)["timesteps"], config_of(copied)["iterations"]) == (256, 0)


def test_env_steps_count_whatever_the_number_of_environments(copied: Path) -> None:
    argv = [*SMALL, "--run-dir", str(copied), "--timesteps", "300", "--num-envs", "16"]
    assert main(argv) == 0
    assert [row["env_steps"] for row in rows(copied)[4:]] == [160, 224, 288, 352]
    assert main(argv) == 0
    assert len(rows(copied)) == 8


def test_the_unroll_is_chosen_once(tmp_path: Path) -> None:
    """For 64 environments 48 steps, and the run keeps them at any number."""
    argv = [*COMMON, "--run-dir", str(tmp_path / "run")]
    assert main([*argv, "--num-envs", "64", "--iterations", "1"]) == 0
    first = config_of(tmp_path / "run")["ppo"]
    assert first["unroll"] == 48
    more = [*argv, "--num-envs", "256", "--iterations", "2"]
    assert make_plan(parse([*more, "--run-dir", str(tmp_path / "new")])).config.ppo.unroll == 24
    assert main(more) == 0
    assert config_of(tmp_path / "run")["ppo"] == first
    assert rows(tmp_path / "run")[-1]["env_steps"] == 48 * (64 + 256)
    open_again = parse([*more, "--ppo.unroll", "0"])
    assert make_plan(open_again).config.ppo.unroll == 48, "0 is what the run has"


def test_a_goal_is_known_before_the_unroll_is_chosen() -> None:
    config = parse([*COMMON, "--num-envs", "256", "--timesteps", "1M"])
    assert config.ppo.unroll == 0
    assert goal_iteration(config) == -(-1_000_000 // (24 * 256))
    assert goal_iteration(config, 10, 999_999) == 11
    assert goal_iteration(config, 10, 1_000_000) == 10
