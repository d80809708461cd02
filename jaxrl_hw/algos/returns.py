"""Advantages and returns."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def gae(
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    truncated: Array,
    gamma: float,
    gae_lambda: float,
) -> Array:
    """Generalized advantage estimation (Schulman et al. 2016, arXiv:1506.02438, eq. 16).

        delta_t = r_t + gamma * (1 - terminated_t) * V(s'_t) - V(s_t)
        A_t     = delta_t + gamma * lambda * (1 - done_t) * A_{t+1}

    V(s'_t) is the value of what truly followed the action, so a truncated step bootstraps from its
    own final observation and never from the next episode's first one.

    Args:
      reward, value, next_value: [T, N].
      terminated, truncated: [T, N] bool; done is either.
      gamma, gae_lambda: discount and lambda per step.

    Returns:
      Advantages [T, N].
    """
    delta = reward + gamma * jnp.where(terminated, 0.0, next_value) - value
    carry_on = gamma * gae_lambda * (1.0 - (terminated | truncated).astype(reward.dtype))

    def back(advantage: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        delta_t, carry_t = step
        advantage = delta_t + carry_t * advantage
        return advantage, advantage

    _, advantages = jax.lax.scan(back, jnp.zeros_like(delta[0]), (delta, carry_on), reverse=True)
    return advantages
