"""What a run was expected to use is what it uses, and limits hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
def test_a_process_uses_what_was_expected_of_it(train_process: Train, tmp_path: Path) -> None:
    plans = {}
    for number in (512, 2048):
        folder = tmp_path / str(number)
        code, _, err = train_process(*WIDE, "--num-envs", number, "--run-dir", folder)
        assert code == 0, err
        plans[number] = plan_of(folder)
    expected = {n: plan["predicted_bytes"]["total"] for n, plan in plans.items()}
    used = {n: plan["measured_bytes"]["peak"] for n, plan in plans.items()}
    for number in plans:
        assert expected[number] == pytest.approx(used[number], rel=0.1)
        assert plans[number]["measured_bytes"]["compile_peak"] > used[number] / 2
    grown = used[2048] - used[512]
    assert expected[2048] - expected[512] == pytest.approx(grown, rel=0.15)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are Linux's")
def test_under_a_limit_the_largest_number_is_taken_that_keeps_it(
    train_process: Train, tmp_path: Path
) -> None:
    limit = ["--memory-limit", "900MB", "--max-envs", "100000"]
    code, out, err = train_process(*WIDE, *limit, "--run-dir", tmp_path / "run")
    assert code == 0, err
    plan = plan_of(tmp_path / "run")
    assert plan["num_envs"] > 2048
    assert 0.8 * 900e6 < plan["measured_bytes"]["peak"] < 900e6
    assert "--memory-limit 0.9 GB" in " ".join(out.split())
    code, _, err = train_process(*WIDE, "--memory-limit", "100MB", "--run-dir", tmp_path / "no")
    assert code == 2
    assert "give at least --memory-limit" in err
    assert not (tmp_path / "no").exists()
