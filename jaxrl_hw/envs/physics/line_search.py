"""The step length of least cost along a line, for a cost whose slope rises in straight pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

Slopes = Callable[[Array], tuple[Array, Array]]
"""The cost's slope and curvature at step lengths, [k] each."""
_BEYOND = np.array([0.015, 0.06, 0.125, 0.25, 0.5, 1.0, 2.0, 8.0], np.float32)
_INSIDE = np.arange(1, 7, dtype=np.float32) / 7.0
"""Where a trip of the line search looks: in Newton steps, and in widths of the bracket."""


class End(NamedTuple):
    """A step length, with the slope and curvature of the cost there; scalars."""

    length: Array
    slope: Array
    curvature: Array


def least(at: Slopes, slope: Array, curvature: Array, trips: int) -> Array:
    """The step length at which the slope is 0, between the ends that the trips leave.

    Between them the cost's slope counts as a straight line, which is exact where it has no bend.

    slope, curvature: of the cost at length 0; the slope is negative.
    """
    falls = End(jnp.zeros_like(slope), slope, curvature)
    rises = End(jnp.full_like(slope, jnp.inf), -slope, curvature)  # not known yet
    for _ in range(trips):
        falls, rises = _narrowed(falls, rises, at)
    width = jnp.where(jnp.isfinite(rises.length), rises.length - falls.length, 0.0)
    rise = jnp.maximum(rises.slope - falls.slope, mujoco.mjMINVAL)
    return falls.length - width * jnp.clip(falls.slope / rise, -1.0, 0.0)


def _narrowed(falls: End, rises: End, at: Slopes) -> tuple[End, End]:
    """The ends after a look at eight lengths at once.

    Between two ends: a Newton step from each, and six that divide the rest evenly. As long as no
    end rises: shares and multiples of a Newton step, which is too long where rows begin to push.
    """
    bounded = jnp.isfinite(rises.length)
    width = jnp.where(bounded, rises.length - falls.length, 0.0)
    step = -falls.slope / falls.curvature
    back = jnp.where(bounded, rises.slope / rises.curvature, 0.0)
    between = jnp.concatenate((jnp.stack((step, width - back)), width * _INSIDE))
    looked = falls.length + jnp.where(bounded, jnp.clip(between, 0.0, width), step * _BEYOND)
    slopes, curvatures = at(looked)
    for k in range(len(_BEYOND)):  # selections of scalars: an argmin would be four kernels
        new = End(looked[k], slopes[k], curvatures[k])
        later = (new.slope < 0.0) & (new.length >= falls.length)
        sooner = (new.slope >= 0.0) & (new.length <= rises.length)
        falls = jax.tree.map(lambda a, b, use=later: jnp.where(use, b, a), falls, new)
        rises = jax.tree.map(lambda a, b, use=sooner: jnp.where(use, b, a), rises, new)
    return falls, rises
