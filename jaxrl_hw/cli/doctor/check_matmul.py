"""A matrix product on the device: its speed, and its error against NumPy in 64 bits.

Recent NVIDIA cards multiply 32-bit numbers as TF32 (10 bits of mantissa) unless a program asks for
the highest precision. TPUs multiply them as bfloat16. Networks learn with it; physics does not
work with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from jaxrl_hw.cli.doctor.check_devices import open_jax
from jaxrl_hw.cli.doctor.results import FAIL, PASS, CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import run_in_subprocess
from jaxrl_hw.loggers import formats

EXACT, COARSE, WRONG = 1e-5, 1e-3, 2e-2
"""Bounds of the relative error: float32 (measured 3e-7) is below the first, TF32 (3e-4) below the
second, bfloat16 (2e-3) below the third."""
_SIDE_CPU, _SIDE_DEVICE = 1024, 4096
_ROWS = 64
"""Rows of the product that are compared; NumPy would take seconds for all of a large one."""
_TIMED_S = 0.4


def check(context: Context) -> Iterator[CheckResult]:
    """A row for the highest precision, in which physics computes, and one for the default."""
    platform, environ = context.platform, context.environ
    seen = run_in_subprocess(measure, platform, timeout_s=60, environ=environ)
    for precision in ("highest", "default"):
        yield judge(precision, seen[precision], seen["side"])


def measure(platform: str) -> dict[str, Any]:
    """Relative error and 1e9 floating-point operations per second, by precision."""
    jax = open_jax(platform)
    import numpy as np

    side = _SIDE_CPU if platform == "cpu" else _SIDE_DEVICE
    a, b = np.random.default_rng(0).standard_normal((2, side, side), np.float32)
    expected = a[:_ROWS].astype(np.float64) @ b.astype(np.float64)
    on_device = jax.device_put(a), jax.device_put(b)
    seen: dict[str, Any] = {"side": side}
    with jax.default_matmul_precision("highest"):  # as physics asks for it
        seen["highest"] = _timed(jax.jit(lambda x, y: x @ y), *on_device, expected)
    seen["default"] = _timed(jax.jit(lambda x, y: x @ y), *on_device, expected)
    return seen


def relative_error(product: Any, expected: Any) -> float:
    """Root mean square of the difference over that of `expected`, both [M, N]."""
    import numpy as np

    difference = np.asarray(product, np.float64) - expected
    return float(np.sqrt(np.mean(difference**2) / np.mean(expected**2)))


def judge(precision: str, seen: dict[str, float], side: int) -> CheckResult:
    """The row of one precision ("highest" or "default"): {"error": ..., "gflops": ...}."""
    error, gflops = seen["error"], seen["gflops"]
    text = f"{formats.figure(gflops)} GFLOP/s, relative error {error:.1e} against NumPy"
    figures = {"side": side, **seen}
    kind = "TF32" if error < COARSE else "bfloat16"
    advice = ""
    if not error < WRONG:  # NaN is wrong too
        text = f"{text}: it is wrong"
        advice = "update the driver and jax; do not trust this device before"
    elif error >= EXACT and precision == "highest":
        text = f"{text}: rounded like {kind} although the highest precision is asked for"
        advice = "update jax and the driver; physics needs more exact numbers"
    elif error >= EXACT:
        text = f"{text}: rounded like {kind}, for networks only; physics uses the highest precision"
    return CheckResult(precision, text, advice, figures, FAIL if advice else PASS)


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
