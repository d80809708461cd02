"""Settings of the networks that every algorithm uses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class NetConfig:
    """Policy and value networks: plain multilayer perceptrons."""

    policy: tuple[int, ...] = (512, 256, 128)
    """Widths of the policy's hidden layers."""
    value: tuple[int, ...] = (512, 256, 128)
    """Widths of the value network's hidden layers."""
    activation: str = "elu"
    """elu, relu, silu (swish) or tanh."""
    init_std: float = 0.8
    """Standard deviation of the Gaussian policy at the start, in units of action."""


def count_weights(size: int, widths: tuple[int, ...], out: int) -> int:
    """Parameters of a multilayer perceptron from `size` inputs to `out` outputs."""
    return sum((a + 1) * b for a, b in pairwise([size, *widths, out]))
