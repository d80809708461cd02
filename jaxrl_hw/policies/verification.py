"""Whether an exported file acts as the policy does: run it and compare."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl_hw.policies.io import load_policy
from jaxrl_hw.policies.portable import PortablePolicy

COUNT = 1000
"""Observations that every file is run on."""
TOLERANCE = 1e-5
"""Largest difference that rounding in float32 explains: absolute up to an action of 1, relative
beyond."""

Act = Callable[[np.ndarray], np.ndarray]


class Runner(NamedTuple):
    """A policy file as a function, and what runs it."""

    act: Act  # [N, O] -> [N, A]
    by: str


def sample_observations(policy: PortablePolicy, count: int = COUNT, seed: int = 0) -> np.ndarray:
    """Observations [count, O] with the mean and scale of those in training.

    In every tenth, one entry is so far off that the policy clips it. In every tenth, the phase mask
    sees a standing robot.
    """
    rng = np.random.default_rng(seed)
    unit = rng.standard_normal((count, policy.obs_size))
    outliers = np.arange(0, count, 10)
    entry = rng.integers(policy.obs_size, size=len(outliers))
    unit[outliers, entry] = 1.5 * policy.clip * rng.choice([-1.0, 1.0], size=len(outliers))
    observations = policy.mean + unit * policy.scale
    observations[5::10, (policy.phase_mask.motion != 0.0).any(axis=1)] = 0.0
    return np.asarray(observations, np.float32)


def compare(runner: Runner, observations: np.ndarray, expected: np.ndarray) -> tuple[float, bool]:
    """The largest difference from the expected actions [N, A], and whether all are within
    `TOLERANCE`. NaN, and actions of another shape, differ by infinity."""
    got = np.asarray(runner.act(observations))
    if got.shape != expected.shape:
        return float("inf"), False
    off = np.nan_to_num(np.abs(got - expected), nan=np.inf)
    return float(off.max()), bool((off <= TOLERANCE * np.maximum(1.0, np.abs(expected))).all())


def open_file(path: Path) -> Runner:
    """The policy in a file of an export, by its suffix."""
    if path.suffix == ".onnx":
        return _onnx(path)
    if path.suffix == ".pt":
        return _torchscript(path)
    if path.suffix == ".npz":
        return Runner(load_policy(path), "NumPy")
    return Runner(runpy.run_path(str(path))["Policy"](), "NumPy")


def _onnx(path: Path) -> Runner:
    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        session: Any = ReferenceEvaluator(str(path))
        by = "onnx's reference evaluator"
    else:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        by = f"onnxruntime {metadata.version('onnxruntime')}"
    return Runner(lambda obs: session.run(["action"], {"obs": obs})[0], by)


def _torchscript(path: Path) -> Runner:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        net = torch.jit.load(str(path))
    by = f"torch {torch.__version__}"
    return Runner(lambda obs: np.asarray(net(torch.from_numpy(obs)).detach().numpy()), by)
