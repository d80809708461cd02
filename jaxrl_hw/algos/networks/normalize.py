"""Running mean and variance of observations."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.types import WHOLE, Shards, SignedPermutation

CLIP = 10.0
"""Largest normalized entry: one odd reading must not rule a gradient."""
MIN_VAR = 1e-4
"""An entry that never varies (a constant command, say) is centred, not blown up."""


class RunningStats(NamedTuple):
    """Statistics over every observation seen so far."""

    seen: Array  # float32 [], how many
    mean: Array  # [D]
    var: Array  # [D]


def init(size: int) -> RunningStats:
    """Nothing seen yet: mean 0, variance 1."""
    return RunningStats(jnp.zeros(()), jnp.zeros(size), jnp.ones(size))


def moments(x: Array, axis: int | None = None, shards: Shards = WHOLE) -> tuple[Array, Array]:
    """Mean and variance over an axis, all axes with None, and over all shards, of which x is one.

    The variance of the whole is the mean of the parts' own and of their means' squared distances.
    """
    mean, var = x.mean(axis=axis), x.var(axis=axis)
    if shards.number == 1:
        return mean, var
    whole = shards.mean(mean)
    return whole, shards.mean(var + (mean - whole) ** 2)


def update(
    stats: RunningStats,
    x: Array,
    shards: Shards = WHOLE,
    mirror: SignedPermutation | None = None,
) -> RunningStats:
    """Take in observations [..., D] (Chan, Golub and LeVeque 1979, the pairwise update).

    shards: of which x is one; the statistics take in all of them.
    mirror: of the observations; the statistics are of them and of their mirror images then.
    """
    flat = x.reshape(-1, x.shape[-1])
    n = jnp.float32(shards.number * flat.shape[0])
    mean, var = moments(flat, 0, shards)
    if mirror is not None:
        mean, apart = (mean + mirror(mean)) / 2, (mean - mirror(mean)) / 2
        var = (var + var[mirror.perm]) / 2 + apart**2
    count = stats.seen + n
    delta = mean - stats.mean
    moment = stats.var * stats.seen + var * n + delta**2 * stats.seen * n / count
    return RunningStats(count, stats.mean + delta * n / count, moment / count)


def scale(stats: RunningStats) -> Array:
    """What centred observations are divided by [D]."""
    return jnp.sqrt(jnp.maximum(stats.var, MIN_VAR))


def normalize(stats: RunningStats, x: Array, clip: float = CLIP) -> Array:
    """Centre, scale and clip [..., D]."""
    return jnp.clip((x - stats.mean) / scale(stats), -clip, clip)
