"""State estimation: the policy network also learns to estimate what only a simulator knows.

A linear head on the policy's last hidden layer is fitted to the entries of the critic's observation
that the policy's lacks, such as the base's velocity. Its gradient teaches the layers below to find
them in noisy, late readings; rewards alone teach that slowly. An exported policy has no head.
Source: Ji et al. 2022 (arXiv:2202.05481), who train a network of its own beside the policy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.types import EnvSpec


class Head(NamedTuple):
    """Parameters of the linear map from F features to E estimates."""

    kernel: Array  # [F, E]
    bias: Array  # [E]


def fresh_head(features: int, spec: EnvSpec) -> Head:
    """A head with zero weights: it estimates every entry's mean."""
    return Head(jnp.zeros((features, spec.unseen)), jnp.zeros(spec.unseen))


def estimation_loss(head: Any, hidden: Array, truth: Array) -> Array:
    """Mean squared error [] in standard deviations of what is estimated.

    Args:
      head: a `Head`.
      hidden: [..., F] of the policy's last hidden layer.
      truth: [..., E] the entries, normalized.
    """
    return jnp.mean((hidden @ head.kernel + head.bias - truth) ** 2)
