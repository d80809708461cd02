"""Whether an exported file acts as the policy does: run it and compare."""

from __future__ import annotations

import runpy
import warnings
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxrl_hw.policies.io import load_policy
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.types import Policy, to_policy

COUNT = 1000
"""Observations that every file is run on."""
TOLERANCE = 1e-5
"""Largest difference that rounding in float32 explains: absolute up to an action of 1, relative
beyond."""

ROBOTS = 50
"""Of a policy with a memory: it goes through the observations as so many episodes side by side."""

Run = Callable[[np.ndarray], np.ndarray]


class Runner(NamedTuple):
    """A policy file as a function, and what runs it."""

    run: Run  # episodes [T, N, O] -> actions [T, N, A], from an empty memory
    by: str


def episodes_of(policy: PortablePolicy, observations: np.ndarray) -> np.ndarray:
    """The observations [count, O] as episodes [T, N, O]; of one step without a memory."""
    robots = len(observations) if policy.memory[0] == "none" else ROBOTS
    return observations.reshape(-1, robots, observations.shape[-1])


def drive(policy: Any, episodes: np.ndarray) -> np.ndarray:
    """The actions [T, N, A] of anything that is driven as a policy, over episodes [T, N, O]."""
    policy, actions = to_policy(policy), []
    memory = policy.start(episodes.shape[1])
    for seen in episodes:
        action, memory = policy.step(seen, memory)
        actions.append(np.asarray(action))
    return np.stack(actions)


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


def decided(policy: PortablePolicy, episodes: np.ndarray) -> np.ndarray:
    """Where, bool [T, N, 1], rounding does not change which of a set of actions is the best."""
    if policy.head_kind != "argmax":
        return np.ones((*episodes.shape[:2], 1), bool)
    values = drive(replace(policy, head=(), meta={**policy.meta, "head": "linear"}), episodes)
    second, best = np.moveaxis(np.sort(values, axis=-1)[..., -2:], -1, 0)
    return np.asarray(best - second > 10 * TOLERANCE * (1.0 + np.abs(best)))[..., None]


def compare(
    runner: Runner, episodes: np.ndarray, expected: np.ndarray, counted: Any = True
) -> tuple[float, bool]:
    """The largest difference from the expected actions [T, N, A], and whether all are within
    `TOLERANCE`. NaN, and actions of another shape, differ by infinity.

    counted: bool [T, N, 1], see `decided`.
    """
    got = np.asarray(runner.run(episodes))
    if got.shape != expected.shape:
        return float("inf"), False
    off = np.where(counted, np.nan_to_num(np.abs(got - expected), nan=np.inf), 0.0)
    return float(off.max()), bool((off <= TOLERANCE * np.maximum(1.0, np.abs(expected))).all())


def open_file(path: Path) -> Runner:
    """The policy in a file of an export, by its suffix."""
    if path.suffix == ".onnx":
        return _onnx(path)
    if path.suffix == ".pt":
        return _torchscript(path)
    policy = load_policy(path) if path.suffix == ".npz" else runpy.run_path(str(path))["Policy"]()
    return Runner(lambda episodes: drive(policy, episodes), "NumPy")


def _onnx(path: Path) -> Runner:
    import onnx

    try:
        import onnxruntime
    except ImportError:
        from onnx.reference import ReferenceEvaluator

        session: Any = ReferenceEvaluator(str(path))
        by = "onnx's reference evaluator"
    else:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        by = f"onnxruntime {metadata.version('onnxruntime')}"
    shapes = {
        value.name: [entry.dim_value for entry in value.type.tensor_type.shape.dim[1:]]
        for value in onnx.load(str(path)).graph.input[1:]
    }

    def start(count: int) -> dict[str, np.ndarray]:
        return {name: np.zeros((count, *shape), np.float32) for name, shape in shapes.items()}

    def step(obs: np.ndarray, memory: dict[str, np.ndarray]) -> tuple[np.ndarray, Any]:
        outputs = ["action", *(f"{name}_out" for name in memory)]
        action, *after = session.run(outputs, {"obs": obs, **memory})
        return action, dict(zip(memory, after, strict=True))

    return Runner(lambda episodes: drive(Policy(start, step), episodes), by)


def _torchscript(path: Path) -> Runner:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        net = torch.jit.load(str(path))

    def act(obs: np.ndarray) -> np.ndarray:
        return np.asarray(net(torch.from_numpy(obs)).detach().numpy())

    return Runner(lambda episodes: drive(act, episodes), f"torch {torch.__version__}")
