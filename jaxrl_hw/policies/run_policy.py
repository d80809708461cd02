"""A trained policy with NumPy alone, read from policy.npz beside this file.

from run_policy import Policy

policy = Policy()
action = policy(observation)  # [O] or [batch, O] -> [A] or [batch, A]
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
    "silu": lambda x: x * (0.5 + 0.5 * np.tanh(0.5 * x)),
    "tanh": np.tanh,
}


class Policy:
    """Observations to actions, float32; `meta` describes both."""

    def __init__(self, path: Any = None) -> None:
        with np.load(path or Path(__file__).with_name("policy.npz"), allow_pickle=False) as file:
            self.arrays = {name: file[name] for name in file.files}
        self.meta = json.loads(str(self.arrays.pop("meta")))

    def __call__(self, observation: Any) -> np.ndarray:
        return forward(self.arrays, self.meta["activation"], observation)


def forward(a: dict[str, np.ndarray], activation: str, observation: Any) -> np.ndarray:
    """[..., O] -> [..., A] through the arrays motion, clock, mean, scale, clip, kernel0, bias0,
    kernel1, ..."""
    x = np.asarray(observation, np.float32)
    standing = np.abs(x @ a["motion"]).max(axis=-1, keepdims=True) < 1
    x = (x * (1 - a["clock"] * standing) - a["mean"]) / a["scale"]
    x = np.clip(x, -a["clip"], a["clip"])
    last = sum(name.startswith("kernel") for name in a) - 1
    for i in range(last):
        x = ACTIVATIONS[activation](x @ a[f"kernel{i}"] + a[f"bias{i}"])
    return np.asarray(x @ a[f"kernel{last}"] + a[f"bias{last}"], np.float32)
