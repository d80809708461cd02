"""Settings of the networks that every algorithm uses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from jaxrl_hw.types import setting


@dataclass(frozen=True)
class NetConfig:
    """Policy and value networks: plain multilayer perceptrons."""

    policy: tuple[int, ...] = setting((512, 256, 128), at_least=1)
    """Widths of the policy's hidden layers."""
    value: tuple[int, ...] = setting((512, 256, 128), at_least=1)
    """Widths of the value network's hidden layers."""
    activation: Literal["elu", "relu", "silu", "tanh"] = setting("elu")
    """Activation function of the hidden layers; silu is also called swish."""
    init_std: float = setting(0.8, at_least=1e-3)
    """Standard deviation of the Gaussian policy at the start, in units of action."""


def count_weights(size: int, widths: tuple[int, ...], out: int) -> int:
    """Parameters of a multilayer perceptron from `size` inputs to `out` outputs."""
    return sum((a + 1) * b for a, b in pairwise([size, *widths, out]))
