"""A trained policy as NumPy arrays and a description: what is saved, shipped and deployed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxrl_hw.policies import run_policy
from jaxrl_hw.types import PhaseMask, to_policy

FORMAT = 5
"""Version of the arrays and of the description, in the description. Format 1 has no phase mask;
format 2 has `calm`, the diagonal of a square `motion`; format 3 knows no memory, format 4 no
head."""
HEAD = "head"
"""The array of a policy's head, where its kind has one, and the kind's name in the description."""
GRU = ("gru_in", "gru_state", "gru_bias", "gru_gate")
"""Arrays of a recurrent policy: [O, 3 H], [H, 3 H], [3 H] and [H], gates in the order reset,
update, new. Source: `run_policy.gru`."""


@dataclass(frozen=True, eq=False)
class PortablePolicy:
    """Phase mask, memory, normalization, dense layers, head: observations to actions.

    The action is without exploration noise: the mean of a Gaussian.
    """

    phase_mask: PhaseMask = field(repr=False)  # of NumPy arrays
    mean: np.ndarray = field(repr=False)  # [O], subtracted from the masked observation
    scale: np.ndarray = field(repr=False)  # [O], then divided by
    clip: float  # then clipped to +-clip
    seen: float  # observations that mean and scale come from
    kernels: tuple[np.ndarray, ...] = field(repr=False)  # [in, out] each
    biases: tuple[np.ndarray, ...] = field(repr=False)  # [out] each
    log_std: np.ndarray = field(repr=False)  # [A], of the exploration noise in training
    gru: tuple[np.ndarray, ...] = field(repr=False)  # arrays named `GRU`; () without them
    meta: dict[str, Any] = field(repr=False)
    """What the numbers mean, as JSON has it; see `metadata.describe`."""
    head: tuple[np.ndarray, ...] = field(default=(), repr=False)  # the array of `types.Head`

    @property
    def activation(self) -> str:
        """Between the layers: elu, relu, silu or tanh."""
        return str(self.meta["activation"])

    @property
    def memory(self) -> tuple[str, int]:
        """none, history or gru (`NetConfig.memory`), and its size: of a history the observations,
        of a gru the width of its state."""
        return run_policy.memory_of(self.meta)

    @property
    def form(self) -> dict[str, Any]:
        """The settings of `NetConfig` that follow from the policy's arrays and description."""
        kind, size = self.memory
        sized = {kind: size} if size else {}
        return {"policy": self.widths, "activation": self.activation, "memory": kind, **sized}

    @property
    def obs_size(self) -> int:
        return len(self.mean)

    @property
    def output_size(self) -> int:
        """Outputs of the network; those of a discrete policy are the actions' values."""
        return len(self.biases[-1])

    @property
    def action_size(self) -> int:
        return self.head[0].shape[-1] if self.head else self.output_size

    @property
    def head_kind(self) -> Any:
        """linear, tanh or argmax (`types.Head`)."""
        return self.meta.get(HEAD, "linear")

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the hidden layers."""
        return tuple(len(bias) for bias in self.biases[:-1])

    def arrays(self) -> dict[str, np.ndarray]:
        """All numbers by the names they have in a file, float32."""
        numbers = {
            **self.phase_mask._asdict(),
            **{name: getattr(self, name) for name in ("mean", "scale", "clip", "seen", "log_std")},
            **{f"kernel{i}": kernel for i, kernel in enumerate(self.kernels)},
            **{f"bias{i}": bias for i, bias in enumerate(self.biases)},
            **dict(zip(GRU, self.gru, strict=False)),
            **dict(zip((HEAD,), self.head, strict=False)),
        }
        return {name: np.asarray(value, np.float32) for name, value in numbers.items()}

    def start(self, count: int) -> np.ndarray:
        """What it remembers at the start of `count` episodes; see `run_policy.start`."""
        return run_policy.start(self.arrays(), self.meta, count)

    def step(self, observation: Any, memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Observations [N, O] and a memory [N, ...] -> actions [N, A] and the memory, float32, with
        NumPy alone."""
        rows = np.asarray(observation, np.float32)
        return run_policy.step(self.arrays(), self.meta, rows, np.asarray(memory, np.float32))

    def __call__(self, observation: Any) -> np.ndarray:
        """[..., O] -> [..., A]: of observations that are each the first of an episode."""
        return np.asarray(to_policy(self)(np.asarray(observation, np.float32)))
