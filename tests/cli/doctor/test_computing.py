"""What computes is tried, and what computes wrongly is found."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jaxrl_hw.envs.physics
from jaxrl_hw.cli.doctor import check_matmul, check_physics, check_rendering, check_training
from jaxrl_hw.cli.doctor.results import Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import NoResult, call

Made = Callable[..., list[Finding]]


@pytest.mark.slow
def test_a_product_is_exact_and_timed(made: Made) -> None:
    found = made("devices", "matmul")[1:]
    assert [(row.item, row.status) for row in found] == [("highest", "pass"), ("default", "pass")]
    for row in found:
        assert 1e-9 < row.figures["error"] < 1e-5
        assert row.figures["gflops"] > 0.5


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """float32 with the last `bits` of the mantissa rounded away: 13 is TF32, 16 is bfloat16."""
    whole = values.view(np.uint32) + np.uint32(1 << (bits - 1))
    return (whole & np.uint32(~((1 << bits) - 1) & 0xFFFFFFFF)).view(np.float32)


@pytest.mark.parametrize(("bits", "kind"), [(13, "TF32"), (16, "bfloat16")])
def test_coarse_products_are_noticed(bits: int, kind: str) -> None:
    a, b = np.random.default_rng(1).standard_normal((2, 512, 512), np.float32)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    error = check_matmul.relative_error(rounded(a, bits) @ rounded(b, bits), exact)
    seen = {"error": error, "gflops": 1.0}
    found = check_matmul.judge("highest", seen, 512)
    assert found.status == "fail"
    assert f"rounded like {kind} although the highest precision is asked for" in found.value
    found = check_matmul.judge("default", seen, 512)
    assert found.status == "pass"
    assert f"rounded like {kind}, for networks only" in found.value


@pytest.mark.parametrize("error", [0.5, float("nan")])
def test_wrong_products_fail_in_any_precision(error: float) -> None:
    for precision in ("highest", "default"):
        found = check_matmul.judge(precision, {"error": error, "gflops": 1.0}, 512)
        assert (found.status, "it is wrong" in found.value) == ("fail", True)


@pytest.mark.slow
def test_the_c_engine_agrees_with_mj_step(made: Made) -> None:
    seen = call(check_physics.step, "native", "cpu", limit_s=100)
    assert 0.0 < seen["difference"] < 1e-4
    assert check_physics.judge("native", seen).status == "pass"


def test_an_engine_that_steps_wrongly_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = jaxrl_hw.envs.physics.make_physics

    def wrong(engine: str, model: Any, substeps: int) -> Any:
        return right(engine, model, substeps + 1)

    monkeypatch.setattr(jaxrl_hw.envs.physics, "make_physics", wrong)
    seen = check_physics.step("native", "cpu")
    assert seen["difference"] > 0.01
    assert check_physics.judge("native", seen).status == "fail"
    assert check_physics.judge("mjx", {**seen, "difference": float("inf")}).status == "fail"


@pytest.mark.slow
def test_training_that_does_not_start_raises(plain: None, tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "JAX_TRANSFER_GUARD": "disallow",
        "JAXRL_HW_CACHE": str(tmp_path / "cache"),
    }
    with pytest.raises(NoResult, match="Disallowed host-to-device transfer"):
        call(check_training.train, str(tmp_path / "run"), limit_s=100, environ=environ)


def test_training_that_learns_nothing_numeric_fails() -> None:
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
    assert "a loss is no number" in check_training.judge({**seen, "finite": False}).value
    assert check_training.judge({**seen, "iteration": 1}).status == "fail"


@pytest.mark.slow
def test_drawing_is_a_picture_or_a_warning_with_what_to_install(
    made: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = made("rendering")
    if found.status == "pass":
        assert found.figures["colours"] > 10
    else:
        assert (found.status, "libegl1 (or libosmesa6)" in found.advice) == ("warn", True)
    monkeypatch.setenv("MUJOCO_GL", "vulkan")
    (found,) = made("rendering")
    assert (found.status, found.advice) == ("warn", "unset MUJOCO_GL")
    assert 'unknown MUJOCO_GL "vulkan"' in found.value
    empty = {"backend": "egl", "size": [160, 96], "colours": 1}
    assert check_rendering.judge(empty).status == "fail"
