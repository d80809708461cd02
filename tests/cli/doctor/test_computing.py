"""The checks compute on the device, and notice wrong results."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from jaxrl_hw.cli.doctor import check_matmul, check_optional, check_physics, check_training
from jaxrl_hw.cli.doctor.results import CheckResult
from jaxrl_hw.cli.doctor.run_in_subprocess import CallError, run_in_subprocess
from jaxrl_hw.envs.physics import make_physics
from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot

Rows = Callable[..., list[CheckResult]]


@pytest.mark.slow
def test_a_product_is_exact_and_timed(rows: Rows) -> None:
    found = rows("devices", "matmul")[1:]
    assert [(row.item, row.status) for row in found] == [("highest", "pass"), ("default", "pass")]
    for row in found:
        assert 1e-9 < row.figures["error"] < 1e-5
        assert row.figures["gflops"] > 0


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """float32 with the last `bits` of the mantissa rounded away: 13 is TF32, 16 is bfloat16."""
    whole = values.view(np.uint32) + np.uint32(1 << (bits - 1))
    return (whole & np.uint32(~((1 << bits) - 1) & 0xFFFFFFFF)).view(np.float32)


@pytest.mark.parametrize(("bits", "kind"), [(13, "TF32"), (16, "bfloat16")])
def test_a_coarse_product_fails_in_the_highest_precision_only(bits: int, kind: str) -> None:
    a, b = np.random.default_rng(1).standard_normal((2, 512, 512), np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = check_matmul.relative_error(rounded(a, bits) @ rounded(b, bits), exact)
    for precision, status in (("highest", "fail"), ("default", "pass")):
        found = check_matmul.judge(precision, {"error": error, "gflops": 1.0}, 512)
        assert found.status == status
        assert kind in found.value
        assert bool(found.advice) == (status == "fail")


@pytest.mark.parametrize("error", [0.5, float("nan")])
@pytest.mark.parametrize("precision", ["highest", "default"])
def test_a_wrong_product_fails_in_any_precision(precision: str, error: float) -> None:
    found = check_matmul.judge(precision, {"error": error, "gflops": 1.0}, 512)
    assert found.status == "fail"


@pytest.mark.slow
def test_the_c_engine_agrees_with_mj_step() -> None:
    seen = run_in_subprocess(check_physics.measure, "native", "cpu", timeout_s=200)
    assert 0.0 < seen["difference"] < 1e-4
    assert check_physics.judge("native", seen).status == "pass"


def test_an_engine_that_steps_wrongly_fails() -> None:
    robot = get_robot("cartpole")
    model = compile_model(robot.mjcf, robot.timestep)
    wrong = make_physics("native", model, robot.substeps + 1)
    seen = check_physics.compare(wrong, model, robot.substeps, "cpu")
    assert seen["difference"] > 0.01
    assert check_physics.judge("native", seen).status == "fail"
    assert check_physics.judge("mjx", {**seen, "difference": float("inf")}).status == "fail"


@pytest.mark.slow
def test_a_training_that_does_not_start_raises(plain: None, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    environ = {**os.environ, "JAX_TRANSFER_GUARD": "disallow_explicit", "JAXRL_HW_CACHE": cache}
    with pytest.raises(CallError):
        run_in_subprocess(check_training.train, str(tmp_path / "r"), timeout_s=200, environ=environ)


def test_a_training_that_stops_early_or_learns_nothing_finite_fails() -> None:
    seen = {
        "iteration": 2,
        "ended": "goal",
        "num_envs": 64,
        "physics": "native",
        "env_steps_per_s": 20_000.0,
        "memory_bytes": 700_000_000,
        "finite": True,
        "seconds": 12.0,
    }
    assert check_training.judge(seen).status == "pass"
    assert check_training.judge({**seen, "finite": False}).status == "fail"
    assert check_training.judge({**seen, "iteration": 1}).status == "fail"


@pytest.mark.slow
def test_rendering_is_a_picture_or_a_warning_with_what_to_install(
    rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = rows("rendering")
    if found.status == "pass":
        assert found.figures["colours"] > 10
    else:
        assert (found.status, "libegl1" in found.advice) == ("warn", True)
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    (found,) = rows("rendering")
    assert (found.status, found.advice) == ("warn", "unset MUJOCO_GL")
    assert "vulkan" in found.value
    empty = {"backend": "egl", "size": [160, 96], "colours": 1}
    assert check_optional.judge_picture(empty).status == "fail"
