"""python -m jaxrl_hw.train: what it writes, how it ends, how it continues."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import fit, load_run
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.resolve import sized
from jaxrl_hw.train import main
from jaxrl_hw.training.stopping import WINDOW

SMALL = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "8", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "2", "--ppo.minibatch-size", "16"),
    *("--net.policy", "16", "--net.value", "16", "--cartpole.episode-s", "1"),
]
BY_THE_CLOCK = {"wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes"}
"""The only keys of metrics.jsonl that two equal runs may differ in."""


pytestmark = pytest.mark.slow  # every test trains


def start(*argv: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "jaxrl_hw.train", *map(str, argv)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=os.getcwd()
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def sessions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "sessions.jsonl").read_text().splitlines()]


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in (folder / "checkpoints").iterdir())


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder and the hash of its bytes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 40 iterations in one go. Tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([*SMALL, "--run-dir", str(folder), "--iterations", "40"]) == 0
    assert str(folder) in out.getvalue()
    return folder


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error a command has just written, which must be one line."""
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_a_new_run_writes_the_files_of_the_contract(whole: Path) -> None:
    assert checkpoints(whole) == [40]
    record = json.loads((whole / "config.json").read_text())
    assert record["config"]["num_envs"] == 8
    assert record["config"]["physics"] == "native"
    assert record["config"]["ppo"]["minibatch_size"] == 16
    assert {"jax", "mujoco", "optax"} <= set(record["versions"])
    plan = json.loads((whole / "plan.json").read_text())
    assert plan["predicted_bytes"]["total"] > 0
    assert plan["measured_bytes"]["peak"] > 0
    (session,) = sessions(whole)
    assert (session["first_iteration"], session["last_iteration"]) == (1, 40)
    assert (session["ended"], session["num_envs"]) == ("goal", 8)
    assert not (whole / "session.open").exists()


def test_every_iteration_is_a_line_with_the_keys_of_the_contract(whole: Path) -> None:
    lines = rows(whole)
    assert [row["iteration"] for row in lines] == list(range(1, 41))
    wanted = {"iteration", "env_steps", "episode_return", "episode_length", "loss/policy"}
    wanted |= {"loss/value", "entropy", "kl", "lr", "nonfinite_envs", "reward/balanced"}
    for row in lines:
        assert wanted | BY_THE_CLOCK <= set(row)
        assert set(row) == set(lines[0])
        assert row["env_steps"] == row["iteration"] * 8 * 4
        assert row["nonfinite_envs"] == 0
        assert row["memory_bytes"] > 50e6  # a Python with jax in it
        assert row["iterations_per_min"] == pytest.approx(row["env_steps_per_s"] * 60 / 32)
    walls = [row["wall_s"] for row in lines]
    assert walls == sorted(walls)
    assert walls[0] > 0
    assert lines[-1]["episode_length"] == pytest.approx(50)  # 1 s episodes, long settled in


def test_a_run_in_two_sessions_equals_one_in_one(whole: Path, tmp_path: Path) -> None:
    folder = tmp_path / "halves"
    argv = [*SMALL, "--run-dir", str(folder), "--iterations"]
    assert main([*argv, "20"]) == 0
    assert checkpoints(folder) == [20]
    assert main([*argv, "40"]) == 0

    def reproducible(path: Path) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k not in BY_THE_CLOCK} for r in rows(path)]

    assert reproducible(folder) == reproducible(whole)
    assert [s["first_iteration"] for s in sessions(folder)] == [1, 21]
    assert [s["last_iteration"] for s in sessions(folder)] == [20, 40]
    walls = [row["wall_s"] for row in rows(folder)]
    assert walls == sorted(walls)  # training seconds of both sessions, added up


def test_at_the_goal_the_same_command_changes_nothing(whole: Path) -> None:
    before = fingerprint(whole)
    assert main([*SMALL, "--run-dir", str(whole), "--iterations", "40"]) == 0
    assert fingerprint(whole) == before


def test_a_goal_that_is_passed_already_is_refused_and_nothing_touched(
    whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fingerprint(whole)
    assert main([*SMALL, "--run-dir", str(whole), "--iterations", "39"]) == 2
    line = one_line(capsys)
    assert "--iterations 39" in line
    assert "40" in line
    assert fingerprint(whole) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (["--robot", "go1"], ["robot", "cartpole", "go1"]),
        (["--seed", "3"], ["seed", "0", "3"]),
        (
            ["--ppo.gamma", "0.5", "--net.value", "8", "8"],
            ["net.value", "[16]", "[8, 8]", "ppo.gamma", "0.98", "0.5"],
        ),
    ],
    ids=["robot", "seed", "learning"],
)
def test_a_folder_of_another_run_is_refused_with_what_differs(
    whole: Path, change: list[str], named: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    before = fingerprint(whole)
    argv = [*SMALL, *change, "--run-dir", str(whole), "--iterations", "50"]
    assert main(argv) == 2
    line = one_line(capsys)
    for word in (str(whole), *named):
        assert word in line
    assert fingerprint(whole) == before


def test_learning_settings_may_change_where_the_user_says_so_but_not_the_networks(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = [*SMALL, "--run-dir", str(copied), "--iterations", "41", "--ppo.gamma", "0.5"]
    assert main(argv) == 2
    assert "--override-config" in one_line(capsys)
    assert main([*argv, "--override-config", "--net.value", "8", "8"]) == 2
    line = one_line(capsys)
    assert "net.value" in line
    assert "--override-config" not in line
    assert main([*argv, "--override-config"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert all(word in shown for word in ("ppo.gamma", "0.98", "0.5"))
    assert json.loads((copied / "config.json").read_text())["config"]["ppo"]["gamma"] == 0.5
    # they are the run's from now on, and only this once were they asked for
    assert main([*SMALL, "--run-dir", str(copied), "--iterations", "42"]) == 0
    assert not parse([*SMALL, "--run-dir", str(copied)]).override_config


def test_a_run_stops_early_where_its_return_no_longer_grows(tmp_path: Path) -> None:
    """No return is a billion above another: the first mean over the window is the best for good."""
    argv = [*SMALL, "--num-envs", "64", "--ppo.unroll", "50", "--ppo.minibatch-size", "1600"]
    argv += ["--run-dir", str(tmp_path), "--iterations", "300", "--save-every", "100"]
    argv += ["--early-stop", "patience=12.8k,min-delta=1e9"]
    assert main(argv) == 0
    returns = [row["episode_return"] for row in rows(tmp_path)]
    first = next(i for i, value in enumerate(returns) if value is not None)
    window = math.ceil(WINDOW / 3200)
    assert len(returns) == first + window + 4, "12,800 env steps of 3,200 each"
    assert checkpoints(tmp_path)[-1] == len(returns)
    assert sessions(tmp_path)[-1]["ended"] == "early stop"
    before = fingerprint(tmp_path)
    assert main(argv) == 0, "the same command knows that it is over"
    assert fingerprint(tmp_path) == before
    argv[-1] = "patience=19.2k,min-delta=1e9"
    assert main(argv) == 0, "with more patience it continues"
    assert len(rows(tmp_path)) == len(returns) + 2


def test_settings_of_the_machine_may_change_and_the_learner_continues(copied: Path) -> None:
    argv = [*SMALL, "--run-dir", str(copied), "--iterations", "42"]
    assert main([*argv, "--num-envs", "16", "--keep", "1", "--threads", "1"]) == 0
    lines = rows(copied)
    assert [row["iteration"] for row in lines[-3:]] == [40, 41, 42]
    assert lines[-1]["env_steps"] == 40 * 8 * 4 + 2 * 16 * 4
    assert sessions(copied)[-1]["num_envs"] == 16


def test_rows_after_the_checkpoint_and_half_a_line_are_written_anew(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = copied / "metrics.jsonl"
    lost = json.dumps({**rows(copied)[-1], "iteration": 41, "entropy": 123.0})
    log.write_text(log.read_text() + lost + "\n" + '{"iteration": 42, "env_st')
    assert main([*SMALL, "--run-dir", str(copied), "--iterations", "42"]) == 0
    lines = rows(copied)
    assert [row["iteration"] for row in lines] == list(range(1, 43))
    assert lines[40]["entropy"] != 123.0


def test_a_malformed_line_in_the_middle_is_named(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = copied / "metrics.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join([*lines[:6], '{"iteration": 7, "env_st\n', *lines[7:]]))
    before = fingerprint(copied)
    assert main([*SMALL, "--run-dir", str(copied), "--iterations", "42"]) == 2
    line = one_line(capsys)
    assert "metrics.jsonl" in line
    assert "line 7" in line
    assert fingerprint(copied) == before


@pytest.mark.parametrize("text", ['{"format": 1, "config": {"rob', "", "[]"])
def test_a_damaged_config_is_named_and_nothing_touched(
    copied: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "config.json").write_text(text)
    before = fingerprint(copied)
    assert main([*SMALL, "--run-dir", str(copied), "--iterations", "42"]) == 2
    assert "config.json" in one_line(capsys)
    assert fingerprint(copied) == before


def wait_for_rows(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    end = time.monotonic() + 150
    log = folder / "metrics.jsonl"
    while time.monotonic() < end:
        if process.poll() is not None:
            pytest.fail(f"ended early: {process.communicate()}")
        if log.exists() and log.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.05)
    process.kill()
    pytest.fail("no rows within 150 s")


def test_signals_end_a_run_saved_and_the_same_command_continues(tmp_path: Path) -> None:
    names = ("SIGINT", "SIGTERM")
    argv = [*SMALL, "--iterations", "1000000", "--save-every", "1000000"]
    processes = {name: start(*argv, "--run-dir", tmp_path / name) for name in names}
    for name, process in processes.items():
        wait_for_rows(process, tmp_path / name, 3)
        process.send_signal(getattr(signal, name))
    for name, process in processes.items():
        out, err = process.communicate(timeout=600)
        assert process.returncode == 75, err
        folder = tmp_path / name
        last = rows(folder)[-1]["iteration"]
        assert last >= 3
        assert checkpoints(folder) == [last]
        assert sessions(folder)[-1]["ended"] == name
        assert name in out
        assert name in err
    # the last one, continued
    assert main([*argv, "--run-dir", str(folder), "--iterations", str(last + 2)]) == 0
    assert [row["iteration"] for row in rows(folder)] == list(range(1, last + 3))


def test_the_time_limit_ends_a_run_saved(tmp_path: Path) -> None:
    # counted from the start of this process, which was long ago
    argv = [*SMALL, "--run-dir", str(tmp_path), "--iterations", "1000000", "--time-limit", "1s"]
    assert main(argv) == 75
    assert checkpoints(tmp_path) == [rows(tmp_path)[-1]["iteration"]]
    assert sessions(tmp_path)[-1]["ended"] == "time limit"


def test_a_stop_in_the_goals_own_iteration_is_the_goal(copied: Path) -> None:
    config = parse([*SMALL, "--run-dir", str(copied), "--iterations", "43"])
    seen: list[int] = []

    def stop_at(iteration: int) -> Any:
        def callback(row: dict[str, Any]) -> bool:
            seen.append(row["iteration"])
            return bool(row["iteration"] == iteration)

        return callback

    stopped = fit(config, stop_at(42))
    assert (stopped.ended, stopped.iteration) == ("callback", 42)
    assert checkpoints(copied)[-1] == 42
    done = fit(config, stop_at(43))
    assert (done.ended, done.iteration) == ("goal", 43)
    assert seen == [41, 42, 43]
    loaded = load_run(copied)
    assert loaded.iteration == 43
    assert loaded.metrics["iteration"] == list(range(1, 44))


def test_resume_never_keeps_the_old_run_under_another_name(copied: Path) -> None:
    before = fingerprint(copied)
    argv = [*SMALL, "--run-dir", str(copied), "--iterations", "2", "--resume", "never"]
    assert main(argv) == 0
    assert [row["iteration"] for row in rows(copied)] == [1, 2]
    assert fingerprint(copied.with_name("copy.1")) == before


def test_a_run_can_start_from_another_runs_checkpoint(whole: Path, tmp_path: Path) -> None:
    before = fingerprint(whole)
    folder = tmp_path / "branch"
    argv = [*SMALL, "--run-dir", str(folder), "--iterations", "42", "--resume", str(whole)]
    assert main([*argv, "--ppo.gamma", "0.9"]) == 0
    assert [row["iteration"] for row in rows(folder)] == [41, 42]
    assert fingerprint(whole) == before


def test_resume_required_wants_a_checkpoint(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "nothing"
    assert main([*SMALL, "--run-dir", str(folder), "--resume", "required"]) == 2
    line = one_line(capsys)
    assert "--resume required" in line
    assert str(folder) in line
    assert not folder.exists()


def test_a_saved_config_makes_the_same_run_again(whole: Path, tmp_path: Path) -> None:
    again = parse(["--config", str(whole / "config.json"), "--run-dir", str(tmp_path / "again")])
    first = parse([*SMALL, "--iterations", "40", "--run-dir", str(tmp_path / "again")])
    assert again == sized(first, int(first.num_envs))


def test_a_folder_without_a_checkpoint_decides_nothing(whole: Path, tmp_path: Path) -> None:
    # a run that was killed before its first checkpoint has left its config, and is no run yet
    shutil.copy(whole / "config.json", tmp_path)
    config = parse(["--robot", "go1", "--run-dir", str(tmp_path)])
    assert config == replace(preset_config("go1"), run_dir=str(tmp_path))
