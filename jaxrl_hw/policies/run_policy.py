"""A trained policy with NumPy alone, read from policy.npz beside this file.

from run_policy import Policy

policy = Policy()
action = policy(observation)  # [O] or [batch, O] -> [A] or [batch, A]
policy.reset_memory()  # at the start of an episode, where the policy has a memory
policy.meta["joint_names"]  # and default_pose, kp, kd, action_scale, observation, control_rate, ...
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

ACTIVATIONS: dict[str, Any] = {
    "elu": lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1),
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * sigmoid(x),
    "tanh": np.tanh,
}


MEMORIES = ("none", "history", "gru")
HEADS = ("linear", "tanh", "argmax")


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * x)


class Policy:
    """Observations to actions, float32; `meta` describes both. What it remembers of the calls
    before starts at zero, and again where the batch has another size."""

    def __init__(self, path: Any = None) -> None:
        with np.load(path or Path(__file__).with_name("policy.npz"), allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.meta = json.loads(str(self.arrays.pop("meta")))
        self.memory: Any = None

    def reset_memory(self) -> None:
        self.memory = None

    def __call__(self, observation: Any) -> np.ndarray:
        observation = np.asarray(observation, np.float32)
        rows = observation.reshape(-1, observation.shape[-1])
        if self.memory is None or len(self.memory) != len(rows):
            self.memory = start(self.arrays, self.meta, len(rows))
        action, self.memory = step(self.arrays, self.meta, rows, self.memory)
        return action.reshape(*observation.shape[:-1], -1)


def open_policy(path: Any) -> Any:
    """The policy in policy.npz, policy.onnx (onnxruntime) or policy.pt (torch), by its suffix, for
    one robot: observation [O] -> action [A]. What it remembers stays inside and starts at zero."""
    suffix = Path(path).suffix
    if suffix == ".onnx":
        return _of_onnx(str(path))
    if suffix != ".pt":
        return Policy(path)
    import torch

    net = torch.jit.load(str(path))
    return lambda observation: net(torch.from_numpy(observation[None])).detach().numpy()[0]


def _of_onnx(path: str) -> Any:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    inputs = session.get_inputs()[1:]
    memory = {i.name: np.zeros((1, *i.shape[1:]), np.float32) for i in inputs}

    def act(observation: np.ndarray) -> Any:
        action, *after = session.run(None, {"obs": observation[None], **memory})
        memory.update(zip(memory, after))  # noqa: B905 (Python 3.8)
        return action[0]

    return act


def start(a: dict[str, np.ndarray], meta: dict[str, Any], count: int) -> np.ndarray:
    """The memory of `count` episodes at their start: observations [count, K - 1, O] of a policy
    with a history, the state [count, H] of a recurrent one, [count, 0] of any other."""
    kind, size = memory_of(meta)
    shape = {"none": (0,), "history": (size - 1, len(a["mean"])), "gru": (size,)}[kind]
    return np.zeros((count, *shape), np.float32)


def memory_of(meta: dict[str, Any]) -> tuple[str, int]:
    """The kind of memory that a description names, and its size: K or H."""
    found = meta.get("memory", {"kind": "none"})
    return found["kind"], int(found.get("size", 0))


def step(
    a: dict[str, np.ndarray], meta: dict[str, Any], observation: np.ndarray, memory: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """[N, O] and a memory [N, ...] -> [N, A] and the memory, through the arrays motion, clock,
    mean, scale, clip, kernel0, bias0, kernel1, ..., gru_in, gru_state, gru_bias, gru_gate of a
    recurrent policy, and head of one with a head."""
    standing = np.abs(observation @ a["motion"]).max(axis=-1, keepdims=True) < 1
    x = observation * (1 - a["clock"] * standing)
    kind, _ = memory_of(meta)
    if kind == "history":
        x = np.concatenate([memory, x[:, None]], axis=1)
        memory = x[:, 1:]
    x = np.clip((x - a["mean"]) / a["scale"], -a["clip"], a["clip"]).reshape(len(x), -1)
    if kind == "gru":
        memory = gru(a, x, memory)
        x = np.concatenate([memory, x], axis=-1)
    last = sum(name.startswith("kernel") for name in a) - 1
    for i in range(last):
        x = ACTIVATIONS[meta["activation"]](x @ a[f"kernel{i}"] + a[f"bias{i}"])
    out = head(a, meta, x @ a[f"kernel{last}"] + a[f"bias{last}"])
    return np.asarray(out, np.float32), memory


def head(a: dict[str, np.ndarray], meta: dict[str, Any], out: np.ndarray) -> np.ndarray:
    """The network's outputs [N, K] as actions [N, A]: as they are (linear), squashed and scaled
    (tanh), or the row of the best one (argmax)."""
    kind = meta.get("head", "linear")
    if kind == "tanh":
        return np.asarray(a["head"] * np.tanh(out))
    return np.asarray(a["head"][np.argmax(out, axis=-1)] if kind == "argmax" else out)


def gru(a: dict[str, np.ndarray], x: np.ndarray, state: np.ndarray) -> np.ndarray:
    """The next state [N, H] of a gated recurrent unit; gates in the order reset, update, new."""
    reset_in, update_in, new_in = np.split(x @ a["gru_in"] + a["gru_bias"], 3, axis=-1)
    reset_at, update_at, new_at = np.split(state @ a["gru_state"], 3, axis=-1)
    update = sigmoid(update_in + update_at)
    new = np.tanh(new_in + sigmoid(reset_in + reset_at) * (new_at + a["gru_gate"]))
    return np.asarray((1 - update) * new + update * state, np.float32)
