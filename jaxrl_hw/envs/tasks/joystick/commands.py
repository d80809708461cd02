"""What the joystick asks for: random planar velocities and yaw rates, and standing still."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics.api import PhysState
from jaxrl_hw.envs.tasks.joystick.params import JoystickParams

STANDING_SPEED = 0.05
"""A command slower than this (m/s, rad/s, as a norm) is to stand still."""
SLOWEST = 0.2
"""No slower command than this is drawn but to stand still: between the two a policy would have to
turn from standing to stepping within a hair's breadth, and steps in place instead."""


def draw(c: JoystickParams, u: Array) -> Array:
    """A command [3] from uniform numbers u [4]; the last decides whether it is to stand still."""
    low, high = (jnp.array(end, jnp.float32) for end in zip(c.vx, c.vy, c.yaw_rate, strict=True))
    command = low + (high - low) * u[:3]
    fastest = jnp.linalg.norm(jnp.maximum(jnp.abs(low), jnp.abs(high)))
    slow = jnp.linalg.norm(command) < SLOWEST * jnp.minimum(1.0, fastest)
    still = (u[3] < c.zero_command) | slow
    return jnp.where(still, 0.0, command)


def draw_normalized(c: JoystickParams, key: Array) -> tuple[Array, Array]:
    """A command [3] as the policy will see it: from the mean of such commands, in their standard
    deviations; and whether it is to stand still. Consumes key."""
    low, high = (np.array(end) for end in zip(c.vx, c.vy, c.yaw_rate, strict=True))
    moving, middle = 1.0 - c.zero_command, (low + high) / 2
    mean = moving * middle
    variance = moving * ((high - low) ** 2 / 12 + middle**2) - mean**2
    command = draw(c, jax.random.uniform(key, (4,)))
    return (command - mean) / np.sqrt(np.maximum(variance, 1e-6)), is_standing(command)


def is_standing(command: Array) -> Array:
    """Whether a command [3] is to stand still."""
    return jnp.linalg.norm(command) < STANDING_SPEED


def is_to_stand(c: JoystickParams, command: Array, physics: PhysState, feet: Array) -> Array:
    """Whether a robot is to stand still: its command [3] says so, and no push has set it off.

    feet: [K] velocities of the feet under the base, m/s, as the policy can tell them: one that sees
    all of the clock is to step by it.
    """
    off = (c.recovery_speed > 0.0) & (jnp.linalg.norm(physics.qvel[:2]) >= c.recovery_speed)
    fastest = jnp.max(jnp.abs(feet))
    off |= (c.standing_phase_speed > 0.0) & (fastest >= c.standing_phase_speed)
    return is_standing(command) & ~(off & (physics.time >= c.recovery_after_s))
