"""Settings of the networks that every algorithm uses."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from jaxrl_hw.types import setting

MemoryKind = Literal["none", "history", "gru"]


@dataclass(frozen=True)
class NetConfig:
    """Policy and value networks: multilayer perceptrons, the policy's perhaps with a memory."""

    policy: tuple[int, ...] = setting((512, 256, 128), at_least=1)
    """Widths of the policy's hidden layers."""
    value: tuple[int, ...] = setting((512, 256, 128), at_least=1)
    """Widths of the value network's hidden layers."""
    activation: Literal["elu", "relu", "silu", "tanh"] = setting("elu")
    """Activation function of the hidden layers; silu is also called swish."""
    memory: MemoryKind = setting("none")
    """What the policy remembers of an episode: none, history (its last observations) or gru (the
    state of a recurrent unit)."""
    history: int = setting(5, at_least=2)
    """history: observations that the policy sees, the present one included."""
    gru: int = setting(128, at_least=1)
    """gru: width of the recurrent state."""
    init_std: float = setting(0.8, at_least=1e-3)
    """Standard deviation of the Gaussian policy at the start, in units of action."""

    @property
    def memory_size(self) -> int:
        """Observations or width of what the policy remembers; 0 without a memory."""
        return {"none": 0, "history": self.history, "gru": self.gru}[self.memory]


class PolicySize(NamedTuple):
    """Numbers that a policy network takes."""

    weights: int
    memory: int  # of one environment
    sample: int  # of one sample of the update, beside its observation
    activations: int  # of one sample


def policy_size(net: NetConfig, obs: int, action: int, mirrored: bool) -> PolicySize:
    """How large the policy network is; see `policy_net`.

    Args:
      net: settings.
      obs, action: O and A.
      mirrored: whether the mirror image has a memory of its own.
    """
    inputs, weights, memory, sample, activations = obs, 0, 0, 0, sum(net.policy)
    if net.memory == "history":
        inputs = sample = net.history * obs  # windows are laid out beside the observations
        memory = inputs - obs
    if net.memory == "gru":
        inputs = net.gru + obs
        weights = 3 * net.gru * (inputs + 1) + net.gru
        memory = (1 + mirrored) * net.gru
        activations += 4 * net.gru
    return PolicySize(
        weights + count_weights(inputs, net.policy, action), memory, sample, activations
    )


def count_weights(size: int, widths: tuple[int, ...], out: int) -> int:
    """Parameters of a multilayer perceptron from `size` inputs to `out` outputs."""
    return sum((a + 1) * b for a, b in pairwise([size, *widths, out]))
