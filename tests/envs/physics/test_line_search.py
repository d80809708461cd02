"""The line search finds where the slope of a cost of straight pieces is 0."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from jaxrl_hw.envs.physics.line_search import Slopes, least


def slopes(start: float, kinks: list[tuple[float, float]], curvature: float = 1.0) -> Slopes:
    """Of a slope that begins at `start` and bends by `more` at each kink (length, more)."""

    def at(lengths: Array) -> tuple[Array, Array]:
        slope = start + curvature * lengths
        bent = jnp.full_like(lengths, curvature)
        for length, more in kinks:
            slope += more * jnp.maximum(lengths - length, 0.0)
            bent += jnp.where(lengths > length, more, 0.0)
        return slope, bent

    return at


@pytest.mark.parametrize(
    ("start", "kinks", "trips", "found"),
    [
        (-1.0, [], 1, 1.0),  # a Newton step ends it
        (-1.0, [(0.03, 999.0)], 3, 0.03097),  # rows begin to push on the way
        (-1.0, [(0.03, 9.0), (0.05, 90.0), (0.06, 900.0)], 3, 0.0577),
        (-1.0, [(0.5, -0.5)], 2, 1.5),  # rows let go on the way
        (-1.0, [(0.5, -0.99)], 4, 50.5),
    ],
)
def test_the_least_cost_is_found(
    start: float, kinks: list[tuple[float, float]], trips: int, found: float
) -> None:
    length = least(slopes(start, kinks), jnp.float32(start), jnp.float32(1.0), trips)
    np.testing.assert_allclose(length, found, rtol=2e-3)
