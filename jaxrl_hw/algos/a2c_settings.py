"""A2C's settings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, get_args

from jaxrl_hw.algos.networks.settings import MemoryKind, NetConfig
from jaxrl_hw.algos.on_policy import on_policy_needs, square_root_rule
from jaxrl_hw.algos.registry import AlgorithmEntry, needs_continuous_actions
from jaxrl_hw.types import Needs, Sizes, setting


@dataclass(frozen=True)
class A2CConfig:
    """Advantage actor-critic (Mnih et al. 2016, arXiv:1602.01783), synchronous."""

    n_steps: int = setting(0, at_least=0)
    """Control steps collected from every environment per iteration, all of them for one update; 0
    takes as many as suit the number of environments: 128 of 16, 32 of 256."""
    gamma: float = setting(0.97, at_least=0.0, at_most=1.0)
    """Discount per control step."""
    gae_lambda: float = setting(0.95, at_least=0.0, at_most=1.0)
    """Lambda of generalized advantage estimation; 1 sums all rewards to the end of the batch."""
    learning_rate: float = setting(1e-3, at_least=1e-9)
    """Step size."""
    optimizer: Literal["adam", "rmsprop"] = setting("adam")
    """adam, or rmsprop as in the article."""
    value_coef: float = setting(1.0, at_least=0.0)
    """Weight of the value loss."""
    entropy_coef: float = setting(0.002, at_least=0.0)
    """Weight of the entropy bonus."""
    max_grad_norm: float = setting(1.0, at_least=1e-9)
    """Gradients are scaled down to this global norm."""


def _needs(a2c: A2CConfig, net: NetConfig, sizes: Sizes) -> Needs:
    return on_policy_needs(
        net,
        sizes,
        unroll=a2c.n_steps,
        epochs=1,
        minibatch_size=_WHOLE,
        moments=2 if a2c.optimizer == "adam" else 1,
    )


_WHOLE = 1 << 40
"""Samples of a minibatch: more than any batch has."""


def _sized(a2c: A2CConfig, num_envs: int, platform: str = "") -> A2CConfig:
    return a2c if a2c.n_steps else replace(a2c, n_steps=square_root_rule(32, 128, num_envs))


ENTRY = AlgorithmEntry(
    "a2c",
    A2CConfig,
    _needs,
    "jaxrl_hw.algos.a2c",
    _sized,
    # a tenth of the rate, as a trained policy takes a fresh value network's advantages
    warm_started=lambda a2c, env_steps, has_critic: replace(
        a2c, learning_rate=a2c.learning_rate / 10.0
    ),
    shorter_unroll=lambda a2c: replace(a2c, n_steps=max(1, a2c.n_steps // 2)),
    check=lambda a2c, circumstances: needs_continuous_actions("a2c", circumstances),
    memories=get_args(MemoryKind),
)
