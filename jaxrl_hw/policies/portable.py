"""A trained policy as NumPy arrays and a description: what is saved, shipped and deployed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxrl_hw.policies.run_policy import forward
from jaxrl_hw.types import PhaseMask

FORMAT = 3
"""Version of the arrays and of the description, in the description. Format 1 has no phase mask;
format 2 has `calm`, the diagonal of a square `motion`."""


@dataclass(frozen=True, eq=False)
class PortablePolicy:
    """Phase mask, normalization, dense layers: observations [..., O] to actions [..., A].

    The action is the mean, without exploration noise.
    """

    phase_mask: PhaseMask = field(repr=False)  # of NumPy arrays
    mean: np.ndarray = field(repr=False)  # [O], subtracted from the masked observation
    scale: np.ndarray = field(repr=False)  # [O], then divided by
    clip: float  # then clipped to +-clip
    seen: float  # observations that mean and scale come from
    kernels: tuple[np.ndarray, ...] = field(repr=False)  # [in, out] each
    biases: tuple[np.ndarray, ...] = field(repr=False)  # [out] each
    log_std: np.ndarray = field(repr=False)  # [A], of the exploration noise in training
    meta: dict[str, Any] = field(repr=False)
    """What the numbers mean, as JSON has it; see `metadata.describe`."""

    @property
    def activation(self) -> str:
        """Between the layers: elu, relu, silu or tanh."""
        return str(self.meta["activation"])

    @property
    def obs_size(self) -> int:
        return len(self.mean)

    @property
    def action_size(self) -> int:
        return len(self.biases[-1])

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
        }
        return {name: np.asarray(value, np.float32) for name, value in numbers.items()}

    def __call__(self, observation: Any) -> np.ndarray:
        """[..., O] -> [..., A], float32, with NumPy alone."""
        return forward(self.arrays(), self.activation, observation)
