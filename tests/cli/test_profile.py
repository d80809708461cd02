"""--profile N: a trace of N iterations, and where their time went."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw.hardware.trace import Trace, read_trace
from jaxrl_hw.train import main
from jaxrl_hw.training import profiling

SMALL = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "8", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "2", "--ppo.minibatch-size", "16"),
    *("--net.policy", "16", "--net.value", "16", "--cartpole.episode-s", "1"),
]

pytestmark = pytest.mark.slow  # every test trains


def test_a_profiled_run_learns_the_same_and_says_where_its_time_goes(
    tmp_path: Path, train_process: Any, reproducible: Any
) -> None:
    traced, plain = tmp_path / "traced", tmp_path / "plain"
    flags = [*SMALL, "--iterations", "5", "--run-dir"]
    assert train_process(*flags, traced, "--profile", "2")[0] == 0
    assert main([*flags, str(plain)]) == 0
    assert reproducible(traced) == reproducible(plain)
    assert not (plain / "profile").exists()
    figures = json.loads((traced / "profile/parts.json").read_text())
    assert figures["iterations"] == 2
    busy = figures["busy_s"]
    assert all(busy[part] > 0.0 for part in ("physics", "policy", "task", "randomness", "update"))
    assert busy["transfer"] == 0.0, "nothing is copied on a CPU"
    assert 0.0 <= figures["idle_s"] < figures["wall_s"]
    assert list((traced / "profile").rglob("*.xplane.pb"))


def test_a_run_that_ends_within_the_trace_has_what_there_was(tmp_path: Path) -> None:
    flags = [*SMALL, "--run-dir", str(tmp_path / "run"), "--profile", "9"]
    assert main([*flags, "--iterations", "1"]) == 0
    assert not (tmp_path / "run/profile").exists(), "the first iteration of a session warms up"
    assert main([*flags, "--iterations", "4"]) == 0
    figures = json.loads((tmp_path / "run/profile/parts.json").read_text())
    assert figures["iterations"] == 2


def test_a_trace_that_was_cut_counts_the_iterations_that_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The profiler drops what comes after its last free event: here, all after a tenth."""

    def cut(folder: Path) -> Trace:
        whole = read_trace(folder)
        return Trace({op: s / 10 for op, s in whole.busy.items()}, *(x / 10 for x in whole[1:]))

    monkeypatch.setattr(profiling, "read_trace", cut)
    folder = tmp_path / "run"
    assert main([*SMALL, "--run-dir", str(folder), "--iterations", "5", "--profile", "4"]) == 0
    figures = json.loads((folder / "profile/parts.json").read_text())
    assert 0.1 <= figures["iterations"] <= 0.4
    assert "the trace holds" in (folder / "console.log").read_text()
    busy = sum(figures["busy_s"].values())
    assert 0.05 * figures["wall_s"] < busy < 4 * figures["wall_s"], "of an iteration, as ever"


def test_a_number_of_iterations_that_cannot_be_traced_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, "--run-dir", str(tmp_path / "run"), "--profile", "-1"]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
