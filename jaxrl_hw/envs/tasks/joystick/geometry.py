"""Rotations, as far as tasks need them. Quaternions are unit, wxyz, body to world."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array


def rotate_inverse(quat: Array, vector: Array) -> Array:
    """A world-frame vector [3] in the body frame of quat [4]."""
    w, axis = quat[0], quat[1:]
    cross = jnp.cross(axis, vector)
    return vector - 2.0 * w * cross + 2.0 * jnp.cross(axis, cross)


def gravity_direction(quat: Array) -> Array:
    """Unit vector of gravity [3] in the body frame: (0, 0, -1) when upright."""
    w, x, y, z = quat
    return jnp.stack([2.0 * (w * y - x * z), -2.0 * (w * x + y * z), 2.0 * (x * x + y * y) - 1.0])


def yaw_quat(yaw: Array) -> Array:
    """Quaternion [4] of a rotation by yaw [] rad about z."""
    zero = jnp.zeros(())
    return jnp.stack([jnp.cos(yaw / 2), zero, zero, jnp.sin(yaw / 2)])


def from_heading(quat: Array, vector: Array) -> Array:
    """A horizontal vector [2] of the frame of a base's heading (x forward, y left), in the world
    frame.

    quat: [4] of the base, wxyz; not upright to the sky or the floor, where it has no heading.
    """
    w, x, y, z = quat
    forward = jnp.stack([1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)])
    c, s = forward / jnp.maximum(jnp.linalg.norm(forward), 1e-6)
    return jnp.stack([c * vector[0] - s * vector[1], s * vector[0] + c * vector[1]])
