"""A matrix product on the device: how fast, and how exact against NumPy in 64 bits.

Recent NVIDIA cards multiply 32-bit numbers as TF32 (10 bits of mantissa) unless the highest
precision is asked for, TPUs as bfloat16. Networks learn in it; physics does not survive it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from jaxrl_hw.cli.doctor.open_jax import open_jax
from jaxrl_hw.cli.doctor.results import FAIL, PASS, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import call
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.loggers import formats

LIMIT_S = 60.0
EXACT, COARSE, WRONG = 1e-5, 1e-3, 2e-2
"""Relative errors: float32 stays below the first (it makes 3e-7 here), TF32 below the second (it
makes 3e-4), bfloat16 below the third (it makes 2e-3)."""
_CHECK = "matmul"
_SIDE = {"cpu": 1024}
_SIDE_DEVICE = 4096
_ROWS = 64
"""Rows of the product that are compared; NumPy would take seconds for all of a large one."""
_TIMED_S = 0.4


def check(visit: Visit) -> Iterator[Finding]:
    """A row for the highest precision, in which physics computes, and one for the default."""
    seen = call(measure, visit.platform, limit_s=LIMIT_S, environ=visit.environ)
    for precision in ("highest", "default"):
        yield judge(precision, seen[precision], seen["side"])


def measure(platform: str) -> dict[str, Any]:
    """Relative error and 1e9 floating-point operations per second, by precision."""
    jax = open_jax(platform)
    import numpy as np

    side = _SIDE.get(platform, _SIDE_DEVICE)
    a, b = np.random.default_rng(0).standard_normal((2, side, side), np.float32)
    expected = a[:_ROWS].astype(np.float64) @ b.astype(np.float64)
    here, there = jax.device_put(a), jax.device_put(b)
    seen: dict[str, Any] = {"side": side}
    with jax.default_matmul_precision("highest"):  # as physics asks for it
        seen["highest"] = _timed(jax.jit(lambda x, y: x @ y), here, there, expected)
    seen["default"] = _timed(jax.jit(lambda x, y: x @ y), here, there, expected)
    return seen


def relative_error(product: Any, expected: Any) -> float:
    """Root mean square of the difference over that of `expected`, both [M, N]."""
    import numpy as np

    difference = np.asarray(product, np.float64) - expected
    return float(np.sqrt(np.mean(difference**2) / np.mean(expected**2)))


def judge(precision: str, seen: dict[str, float], side: int) -> Finding:
    """The row of one precision ("highest" or "default"): {"error": ..., "gflops": ...}."""
    error, gflops = seen["error"], seen["gflops"]
    text = f"{formats.figure(gflops)} GFLOP/s, relative error {error:.1e} against NumPy"
    figures = {"side": side, **seen}
    if not error < WRONG:  # so that NaN is wrong too
        advice = "update the driver and jax; do not trust this device before"
        return Finding(_CHECK, precision, FAIL, f"{text}: it is wrong", advice, figures)
    if error < EXACT:
        return Finding(_CHECK, precision, PASS, text, figures=figures)
    kind = "TF32" if error < COARSE else "bfloat16"
    if precision == "highest":
        text = f"{text}: rounded like {kind} although the highest precision is asked for"
        advice = "update jax and the driver; physics would be too coarse to learn from"
        return Finding(_CHECK, precision, FAIL, text, advice, figures)
    text = f"{text}: rounded like {kind}, for networks only; physics asks for the highest precision"
    return Finding(_CHECK, precision, PASS, text, figures=figures)


def _timed(multiply: Any, a: Any, b: Any, expected: Any) -> dict[str, float]:
    import numpy as np

    product = np.asarray(multiply(a, b))
    best, began = float("inf"), time.perf_counter()
    while time.perf_counter() - began < _TIMED_S:
        start = time.perf_counter()
        multiply(a, b).block_until_ready()
        best = min(best, time.perf_counter() - start)
    error = relative_error(product[: len(expected)], expected)
    return {"error": error, "gflops": 2.0 * len(product) ** 3 / best / 1e9}
