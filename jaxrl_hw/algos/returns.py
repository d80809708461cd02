"""Advantages and returns."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array


def following(
    value_of: Callable[[Array], Array], value: Array, next_obs: Array, truncated: Array
) -> Array:
    """V(s'_t) of a batch, from the values of the observations that were acted on.

    Within an episode it is the value of the next step. What else is needed, where an episode is cut
    off and at the batch's end, is computed: one observation of each environment at a time.

    Args:
      value_of: observations [N, C] -> values [N].
      value: V(s_t), [T, N].
      next_obs: [T, N, C], from before any reset.
      truncated: [T, N] bool.

    Returns:
      [T, N]; where an episode terminated, any number.
    """
    environments = jnp.arange(value.shape[1])

    def look(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        wanted, values = carry
        at = jnp.argmax(wanted, axis=0), environments
        found = jnp.where(wanted[at], value_of(next_obs[at]), values[at])
        return wanted.at[at].set(False), values.at[at].set(found)

    wanted = truncated.at[-1].set(True)
    later = jnp.roll(value, -1, axis=0)
    return jax.lax.while_loop(lambda carry: carry[0].any(), look, (wanted, later))[1]


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
