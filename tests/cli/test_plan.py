"""python -m jaxrl_hw.plan: what a run would use, here or elsewhere, without training."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw.plan import main
from jaxrl_hw.planning.benchmark import ending
from jaxrl_hw.planning.memory_model import ITEMS

CARTPOLE = ["--robot", "cartpole", "--ppo.unroll", "8", "--net.policy", "32", "--net.value", "32"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def planned(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main([*argv, "--json"]) == 0
    plan: dict[str, Any] = json.loads(capsys.readouterr().out)
    return plan


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    return err


def test_the_compiler_is_asked_once_and_its_figures_are_kept(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jaxrl_hw.plan", *CARTPOLE]
    seconds = []
    for _ in range(2):
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds.append(time.monotonic() - began)
        said = " ".join(done.stdout.split())
        assert "(the compiler's figures)" in said
        assert "too late" not in said
        assert "fits" in said
        assert ("asking the compiler" in said) == (len(seconds) == 1)
    assert seconds[1] < 0.6 * seconds[0]
    assert not (tmp_path / "runs").exists(), "a plan makes no run"


def test_what_a_small_run_has_told_is_not_taken_for_all_sizes(
    capsys: pytest.CaptureFixture[str],
    train_process: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    wanted = [*CARTPOLE, "--physics", "native", "--num-envs", "4096"]
    new = planned(capsys, *wanted)["predicted_bytes"]
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "another"))
    small = ["--num-envs", "16", "--iterations", "1", "--no-tensorboard"]
    code, _, err = train_process(*CARTPOLE, *small, "--run-dir", tmp_path / "run")
    assert code == 0, err
    plan = planned(capsys, *wanted)
    assert plan["predicted_from"] == "the compiler's figures"
    growing = ("environments", "rollout", "temporaries", "physics")
    for name in growing:
        assert plan["predicted_bytes"][name] == pytest.approx(new[name], rel=0.1), name


def test_as_data_the_items_add_up_and_grow_with_the_environments(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few, many = (planned(capsys, *CARTPOLE, "--num-envs", n) for n in ("64", "1024"))
    for plan in (few, many):
        items = plan["predicted_bytes"]
        assert items["total"] == sum(v for k, v in items.items() if k != "total")
        assert set(items) == {*ITEMS, "total"}
    growing = {k for k in ITEMS if many["predicted_bytes"][k] > few["predicted_bytes"][k]}
    assert growing == {"environments", "rollout", "temporaries", "physics"}
    ratio = many["predicted_bytes"]["rollout"] / few["predicted_bytes"]["rollout"]
    assert ratio == pytest.approx(16, rel=0.01)
    assert [c["num_envs"] for c in many["candidates"]] == [256, 512, 1024, 2048, 4096]


def test_a_machine_that_is_not_there_is_planned_for_and_called_an_estimate(
    capsys: pytest.CaptureFixture[str],
) -> None:
    plans = {gpu: planned(capsys, "--robot", "g1", "--gpu", gpu) for gpu in ("t4", "a100-80")}
    for plan in plans.values():
        assert plan["config"]["physics"] == "mjx"
        assert plan["hardware"]["platform"] == "gpu"
        assert any("an estimate" in text for text in plan["warnings"])
        assert plan["predicted_bytes"]["driver"] > 0
    assert plans["t4"]["budget_bytes"] < plans["a100-80"]["budget_bytes"] / 4
    for gpu, pays in (("t4", False), ("a100-80", True)):
        plan = planned(capsys, "--robot", "g1", "--gpu", gpu, "--precision", "bfloat16")
        assert ("no bfloat16 units" not in " ".join(plan["warnings"])) == pays


def test_a_small_card_holds_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    wide = ["--robot", "g1", "--net.policy", "8192", "4096", "--max-envs", "100000"]
    sizes = [
        planned(capsys, *wide, "--gpu", gpu)["num_envs"] for gpu in ("rtx4060-laptop", "t4", "h100")
    ]
    assert sizes == sorted(set(sizes))


def test_a_probe_measures_the_speed_of_each_size_and_train_finds_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = [*CARTPOLE, "--max-envs", "128"]
    assert {c["steps_per_s"] for c in planned(capsys, *flags)["candidates"]} == {None}
    assert main([*flags, "--probe", "--json"]) == 0
    out, said = capsys.readouterr()
    speeds = {c["num_envs"]: c["steps_per_s"] for c in json.loads(out)["candidates"]}
    measured = {n for n, speed in speeds.items() if speed is not None}
    assert measured == {64, 128}
    assert all(speeds[n] > 100 for n in measured)
    assert "iterations with 64 environments" in said
    assert planned(capsys, *flags)["candidates"] == json.loads(out)["candidates"]
    assert not (tmp_path / "runs").exists(), "a probe leaves no run"


def test_a_probe_that_fails_says_why() -> None:
    assert ending(-9, "half a line") == "killed by signal 9 (Killed)"
    assert ending(1, "") == "exit code 1: nothing was said"
    assert ending(1, "warning: slow\nerror: disk full\n") == "exit code 1: disk full"


def test_what_cannot_be_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "the nearest first, there are t4" in refused(capsys, *CARTPOLE, "--gpu", "t44")
    assert "leave --physics native out" in refused(
        capsys, *CARTPOLE, "--gpu", "t4", "--physics", "native"
    )
    assert "leave --gpu t4 out" in refused(capsys, *CARTPOLE, "--gpu", "t4", "--probe")
    assert "needs a value" in refused(capsys, *CARTPOLE, "--gpu")
    assert "did you mean 6GB" in refused(capsys, *CARTPOLE, "--memory-limit", "6")
    assert "give at least --memory-limit" in refused(capsys, *CARTPOLE, "--memory-limit", "99MB")
    for fraction in ("0", "1.5"):
        assert "--mem-fraction must be" in refused(capsys, *CARTPOLE, "--mem-fraction", fraction)
    assert "--max-envs must be at least 0" in refused(capsys, *CARTPOLE, "--max-envs", "-1")
    assert "shrink" in refused(capsys, *CARTPOLE, "--on-oom", "shrinc")
