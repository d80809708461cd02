"""What a run was expected to use is what it uses, and limits hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl_hw.cli.flags import parse
from jaxrl_hw.hardware.detect import detect
from jaxrl_hw.hardware.measurement_cache import recall, remember
from jaxrl_hw.planning.memory_model import program
from jaxrl_hw.planning.planner import make_plan
from jaxrl_hw.train import main

WIDE = [
    *("--robot", "cartpole", "--physics", "native", "--no-tensorboard", "--iterations", "3"),
    *("--net.policy", "256", "128", "--net.value", "256", "128", "--ppo.minibatches", "4"),
]
Train = Callable[..., tuple[int, str, str]]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXRL_HW_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def plan_of(folder: Path) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return plan


@pytest.fixture(scope="module")
def runs(train_process: Train, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of two sizes, one given and one as many as a limit allows: plan and stdout of each."""
    limit = ["--memory-limit", "900MB", "--max-envs", "100000"]
    done = {}
    for name, flags in (("told", ["--num-envs", "512"]), ("limited", limit)):
        folder = tmp_path_factory.mktemp("runs") / name
        code, out, err = train_process(*WIDE, *flags, "--run-dir", folder)
        assert code == 0, err
        done[name] = plan_of(folder), " ".join(out.split())
    return done


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
def test_a_process_uses_what_was_expected_of_it(runs: dict[str, Any]) -> None:
    expected, used = [], []
    for plan, _ in runs.values():
        expected.append(plan["predicted_bytes"]["total"])
        used.append(plan["measured_bytes"]["peak"])
        assert expected[-1] == pytest.approx(used[-1], rel=0.1)
        assert plan["measured_bytes"]["compile_peak"] > used[-1] / 2
    assert expected[1] - expected[0] == pytest.approx(used[1] - used[0], rel=0.15)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
def test_what_a_process_holds_besides_is_counted(tmp_path: Path, quick_compile: None) -> None:
    expected = []
    for name, count in (("without", 1), ("with", 40_000_000)):
        held = np.ones(count)  # up to 320 MB of somebody's own
        argv = [*SMALL, "--num-envs", "16", "--run-dir", str(tmp_path / name)]
        assert main(argv) == 0
        plan = plan_of(tmp_path / name)
        expected.append(plan["predicted_bytes"]["total"])
        assert expected[-1] == sum(
            size for item, size in plan["predicted_bytes"].items() if item != "total"
        )
        assert expected[-1] == pytest.approx(plan["measured_bytes"]["peak"], rel=0.1)
        assert held[-1] == 1.0
    assert expected[1] - expected[0] == pytest.approx(320e6, rel=0.2)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
def test_under_a_limit_the_largest_number_is_taken_that_keeps_it(
    runs: dict[str, Any], train_process: Train, tmp_path: Path
) -> None:
    plan, out = runs["limited"]
    assert plan["num_envs"] > 2048
    assert 0.8 * 900e6 < plan["measured_bytes"]["peak"] < 900e6
    assert "--memory-limit 900 MB" in out
    code, _, err = train_process(*WIDE, "--memory-limit", "100MB", "--run-dir", tmp_path / "no")
    assert code == 2
    assert "give at least --memory-limit" in err
    assert not (tmp_path / "no").exists()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
def test_a_run_that_fills_its_limit_goes_on_and_with_less_where_that_is_lowered(
    train_process: Train, tmp_path: Path
) -> None:
    flags = [*WIDE, "--max-envs", "100000", "--save-every", "1", "--run-dir", str(tmp_path)]
    sizes = []
    for limit, iterations in (("900MB", "4"), ("900MB", "6"), ("800MB", "7")):
        code, out, err = train_process(*flags, "--memory-limit", limit, "--iterations", iterations)
        assert code == 0, err
        plan = plan_of(tmp_path)
        sizes.append(plan["num_envs"])
        assert plan["measured_bytes"]["peak"] < 1e6 * float(limit[:-2])
        assert ("as the run has it" in " ".join(out.split())) == (iterations == "6")
        anew = f"environments do not fit any more: it goes on with {sizes[-1]:,} made anew"
        assert (anew in " ".join((out + err).split())) == (limit == "800MB")
    assert sizes[0] == sizes[1] > 1.1 * sizes[2] > 1000
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == list(range(1, 8))


SMALL = [
    *("--robot", "cartpole", "--physics", "native", "--no-tensorboard", "--iterations", "2"),
    *("--ppo.unroll", "64", "--ppo.epochs", "1", "--ppo.minibatches", "1"),
    *("--net.policy", "8", "--net.value", "8"),
]


def test_what_the_compiler_counts_is_believed_before_anything_is_allocated(
    train_process: Train, tmp_path: Path, capsys: pytest.CaptureFixture[str], quick_compile: None
) -> None:
    """Figures that are far too low let auto choose far too many; the compiler finds out."""
    heavy = [*SMALL, "--net.policy", "512", "512", "--memory-limit", "780MB"]
    argv = [*heavy, "--max-envs", "2000", "--run-dir", str(tmp_path / "run")]
    told = program(make_plan(parse(argv)).config, detect())
    wrong = {1: {"rollout": 10, "temporaries": 100}}
    remember(told, points=wrong)
    assert make_plan(parse(argv)).config.num_envs == 2000
    code, out, err = train_process(*argv)
    assert code == 0, err
    assert "instead" in " ".join(out.split())
    plan = plan_of(tmp_path / "run")
    assert 50 < plan["num_envs"] < 1500
    settled = make_plan(parse([*heavy, "--num-envs", str(plan["num_envs"])]))
    assert settled.footprint.source == "the compiler's figures"
    assert settled.sizing.expected_bytes <= plan["budget_bytes"]
    assert plan["measured_bytes"]["peak"] < 780e6
    assert plan["num_envs"] in recall(told).points
    remember(told, points=dict.fromkeys(recall(told).points, wrong[1]))
    argv = [*heavy, "--num-envs", "2000", "--run-dir", str(tmp_path / "other")]
    assert main(argv) == 2, "a number of the user's own is not changed"
    assert "by the compiler's count 2,000 environments need" in capsys.readouterr().err
    assert not (tmp_path / "other/checkpoints").exists()


def test_who_comes_near_the_limit_is_warned_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], quick_compile: None
) -> None:
    held = np.ones(110_000_000)  # 880 MB that nobody has planned with
    argv = [*SMALL, "--num-envs", "16", "--memory-limit", "900MB", "--run-dir", str(tmp_path)]
    assert main(argv) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.count("of the 900 MB that the run may use are taken") == 1
    assert held[0] == 1.0
