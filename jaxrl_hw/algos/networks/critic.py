"""Twin critics of an action: each gives a value, or a distribution over returns.

The distribution is categorical over evenly spaced returns (Bellemare et al. 2017,
arXiv:1707.06887). Its target is the distribution of what follows, moved by reward and discount and
projected back; the loss is the cross-entropy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.algos.networks.mlp import MLP


class Critics(NamedTuple):
    """Two critics of one form; their parameters have leaves [2, ...]."""

    mlp: MLP
    returns: Array | None = None  # [K], ascending, evenly spaced; None: the output is the value

    def outputs(self, params: Any, obs: Array, action: Array) -> Array:
        """What both say [2, B, K or 1] of observations [B, C] and actions [B, A]."""
        x = jnp.concatenate([obs, action], axis=-1)
        return jax.vmap(lambda one: jnp.asarray(self.mlp.apply(one, x)))(params)

    def values(self, out: Array) -> Array:
        """Expected returns [...] of outputs [..., K or 1]."""
        if self.returns is None:
            return out[..., 0]
        return jax.nn.softmax(out) @ self.returns

    def lower(self, out: Array) -> Array:
        """Of outputs [2, B, K], those of the critic that expects less, sample by sample [B, K]."""
        first, second = self.values(out)
        return jnp.where((first <= second)[:, None], out[0], out[1])

    def target(self, following: Array, reward: Array, discount: Array, bonus: Array) -> Array:
        """What the outputs are to become [B, K or 1].

        Args:
          following: [B, K or 1], outputs for what follows.
          reward, discount: [B], of the n steps until then.
          bonus: [B], is added to the returns of what follows.
        """
        if self.returns is None:
            return (reward + discount * (self.values(following) + bonus))[:, None]
        moved = reward[:, None] + discount[:, None] * (self.returns + bonus[:, None])
        return project(jax.nn.softmax(following), moved, self.returns)

    def loss(self, out: Array, target: Array) -> Array:
        """Of both critics' outputs [2, B, K or 1], summed over the critics [B]."""
        if self.returns is None:
            return ((out - target)[..., 0] ** 2).sum(axis=0)
        return -(target * jax.nn.log_softmax(out)).sum(axis=-1).sum(axis=0)


def project(share: Array, at: Array, returns: Array) -> Array:
    """Shares [B, K] of returns at any place [B, K], as shares of the returns [K], which are evenly
    spaced: each goes to its two neighbours, so that the mean stays; beyond the ends to the end."""
    count, step = len(returns), returns[1] - returns[0]
    place = jnp.clip((at - returns[0]) / step, 0.0, count - 1.0)
    below = jnp.minimum(place.astype(jnp.int32), count - 2)
    upper, rows = place - below, jnp.arange(len(at))[:, None]
    found = jnp.zeros_like(share).at[rows, below].add(share * (1.0 - upper))
    return found.at[rows, below + 1].add(share * upper)
