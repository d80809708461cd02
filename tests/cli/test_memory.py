"""A run uses about what its plan expects, and keeps a memory limit.

Limits are multiples of what this machine's compiler takes, and figures are compared with room to
spare: how exact predictions are is measured by benchmarks/iterations_vs_memory.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl_hw.cli.flags import parse
from jaxrl_hw.hardware.detect import detect
from jaxrl_hw.hardware.measurement_cache import load, store
from jaxrl_hw.loggers.formats import size
from jaxrl_hw.planning.memory_model import COMPILED, ITEMS, program_key
from jaxrl_hw.planning.planner import make_plan
from jaxrl_hw.train import main

COMMON = ["--robot", "cartpole", "--physics", "native", "--no-tensorboard", "--ppo.epochs", "1"]
COMMON += ["--net.activation", "relu"]  # quick to compute
WIDE = [*COMMON, "--net.policy", "1024", "--net.value", "1024", "--ppo.unroll", "32"]
WIDE += ["--ppo.minibatch-size", "100000000", "--max-envs", "100000"]  # much memory, little work
SMALL = [*COMMON, "--iterations", "2", "--ppo.unroll", "64", "--ppo.minibatch-size", "100000000"]
SMALL += ["--net.policy", "8", "--net.value", "8"]
Train = Callable[..., tuple[int, str, str]]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's"),
]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXRL_HW_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def plan_of(folder: Path) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads((folder / "plan.json").read_text())
    return plan


def session_sizes(folder: Path) -> list[int]:
    lines = (folder / "sessions.jsonl").read_text().splitlines()
    return [json.loads(line)["num_envs"] for line in lines]


@pytest.fixture(scope="module")
def first_plan(train_process: Train, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """plan.json of a run of 256 environments without a limit."""
    folder = tmp_path_factory.mktemp("runs") / "first"
    flags = ["--num-envs", "256", "--iterations", "2", "--run-dir", folder]
    code, _, err = train_process(*WIDE, *flags)
    assert code == 0, err
    return plan_of(folder)


@pytest.fixture(scope="module")
def limit_mb(first_plan: dict[str, Any]) -> Callable[[float], int]:
    """limit_mb(factor): that multiple of the memory that compiling takes on this machine."""
    plan = first_plan
    compiling = max(plan["measured_bytes"]["compile_peak"], plan["predicted_compile_bytes"])
    return lambda factor: round(factor * compiling / 1e6)


@pytest.fixture(scope="module")
def limited(
    limit_mb: Callable[[float], int],
    train_process: Train,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A run of two iterations under a limit that it fills. Tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("runs") / "limited"
    flags = ["--memory-limit", f"{limit_mb(1.8)}MB", "--iterations", "2", "--run-dir", folder]
    code, _, err = train_process(*WIDE, *flags)
    assert code == 0, err
    return folder


def check_expectation(plan: dict[str, Any]) -> None:
    expected, used = plan["predicted_bytes"]["total"], plan["measured_bytes"]["peak"]
    assert used / 1.5 < expected < used * 1.5


def test_under_a_limit_the_run_takes_what_fits_and_uses_about_what_was_expected(
    first_plan: dict[str, Any],
    limited: Path,
    limit_mb: Callable[[float], int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    check_expectation(first_plan)
    limit = limit_mb(1.8)
    plan = plan_of(limited)
    check_expectation(plan)
    assert plan["num_envs"] > 256
    assert {c["fits"] for c in plan["candidates"] if c["num_envs"] > plan["num_envs"]} == {False}
    assert plan["budget_bytes"] < 1e6 * limit
    assert plan["measured_bytes"]["peak"] < 1.1e6 * limit
    expected, used = (
        plan[name][key] - first_plan[name][key]
        for name, key in (("predicted_bytes", "total"), ("measured_bytes", "peak"))
    )
    assert used / 2 < expected < used * 2, "of the additional environments"
    flags = ["--memory-limit", "100MB", "--run-dir", tmp_path / "refused"]
    assert main([*WIDE, *map(str, flags)]) == 2
    assert capsys.readouterr().err.count("--memory-limit") == 2, "with a limit that would do"
    assert not (tmp_path / "refused").exists()


def test_what_a_process_holds_besides_is_counted(tmp_path: Path) -> None:
    expected = []
    for name, count in (("without", 1), ("with", 60_000_000)):
        held = np.ones(count)  # 480 MB that are not the run's
        assert main([*SMALL, "--num-envs", "16", "--run-dir", str(tmp_path / name)]) == 0
        plan = plan_of(tmp_path / name)
        items = {k: v for k, v in plan["predicted_bytes"].items() if k != "total"}
        assert plan["predicted_bytes"]["total"] == sum(items.values())
        check_expectation(plan)
        expected.append(sum(items.values()))
        assert held[-1] == 1.0
    assert 240e6 < expected[1] - expected[0] < 960e6


def test_a_run_that_fills_its_limit_continues_and_with_less_where_that_is_lowered(
    limited: Path, limit_mb: Callable[[float], int], train_process: Train, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(limited, tmp_path / "run"))
    high, low = limit_mb(1.8), limit_mb(1.4)
    for limit, iterations in ((high, 3), (low, 4)):
        flags = ["--memory-limit", f"{limit}MB", "--iterations", str(iterations)]
        code, _, err = train_process(*WIDE, *flags, "--run-dir", folder)
        assert code == 0, err
        assert plan_of(folder)["measured_bytes"]["peak"] < 1.1e6 * limit
    sizes = session_sizes(folder)
    assert sizes[0] == sizes[1] > sizes[2] > 256
    warnings = " ".join(plan_of(folder)["warnings"])
    assert f"{sizes[0]:,}" in warnings
    assert f"{sizes[2]:,}" in warnings
    assert size(1e6 * low) in warnings
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]


def test_the_compiler_s_count_is_believed_before_anything_is_allocated(
    limit_mb: Callable[[float], int],
    train_process: Train,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Stored figures that are far too low let auto choose far too many environments."""
    heavy = [*SMALL, "--net.policy", "512", "512", "--max-envs", "8000", "--iterations", "1"]
    high = ["--memory-limit", f"{limit_mb(1.6)}MB"]
    argv = [*heavy, *high, "--run-dir", str(tmp_path / "run")]
    key = program_key(make_plan(parse(argv)).config, detect())
    wrong = {**dict.fromkeys(ITEMS[1:], 0), "rollout": 10, "temporaries": 100}
    store(key, points={1: wrong})
    assert make_plan(parse(argv)).config.num_envs == 8000
    code, _, err = train_process(*argv)
    assert code == 0, err
    plan = plan_of(tmp_path / "run")
    number = plan["num_envs"]
    assert 50 < number < 4000
    assert plan["predicted_from"] == COMPILED
    settled = make_plan(parse([*heavy, *high, "--num-envs", str(number)]))
    assert settled.sizing.expected_bytes <= 1e6 * limit_mb(1.6)
    assert number in load(key).points
    store(key, points=dict.fromkeys(load(key).points, wrong))
    argv = [*heavy, *high, "--num-envs", "8000", "--run-dir", str(tmp_path / "other")]
    assert main(argv) == 2, "a number of the user's own is not changed"
    assert "8,000" in capsys.readouterr().err
    assert not (tmp_path / "other/checkpoints").exists()


def test_a_run_near_its_limit_warns_once(
    limit_mb: Callable[[float], int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    limit = 1_000_000 * limit_mb(1.5)
    held = np.ones(limit // 8)  # the whole limit, and the run did not plan with it
    flags = ["--num-envs", "16", "--memory-limit", f"{limit // 1_000_000}MB"]
    assert main([*SMALL, *flags, "--run-dir", str(tmp_path)]) == 0
    warnings = " ".join(capsys.readouterr().out.split()).split("warning: ")[1:]
    assert sum(size(limit) in text[:100] for text in warnings) == 1
    assert held[0] == 1.0
