"""Settings of the networks that every algorithm uses."""

from __future__ import annotations

from dataclasses import dataclass


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
