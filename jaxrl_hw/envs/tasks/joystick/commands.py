"""Commands: random planar velocities and yaw rates, and standing still."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics.api import PhysState
from jaxrl_hw.envs.tasks.joystick.params import JoystickParams

STANDING_SPEED = 0.05
"""The norm of a command (m/s, rad/s) under which it means: stand still."""
SLOWEST = 0.2
"""A slower command is drawn as standing still. Commands between the two make a policy step in
place: it would have to switch from standing to stepping at an exact speed."""


def draw(c: JoystickParams, u: Array) -> Array:
    """A command [3] from uniform numbers u [4]; the last decides whether the robot stands still."""
    low, high = (jnp.array(end, jnp.float32) for end in zip(c.vx, c.vy, c.yaw_rate, strict=True))
    command = low + (high - low) * u[:3]
    fastest = jnp.linalg.norm(jnp.maximum(jnp.abs(low), jnp.abs(high)))
    slow = jnp.linalg.norm(command) < SLOWEST * jnp.minimum(1.0, fastest)
    still = (u[3] < c.zero_command) | slow
    return jnp.where(still, 0.0, command)


def draw_normalized(c: JoystickParams, key: Array) -> tuple[Array, Array]:
    """A command [3] normalized by the mean and standard deviation of all commands, and whether the
    robot stands still. Consumes key."""
    low, high = (np.array(end) for end in zip(c.vx, c.vy, c.yaw_rate, strict=True))
    moving, middle = 1.0 - c.zero_command, (low + high) / 2
    mean = moving * middle
    variance = moving * ((high - low) ** 2 / 12 + middle**2) - mean**2
    command = draw(c, jax.random.uniform(key, (4,)))
    return (command - mean) / np.sqrt(np.maximum(variance, 1e-6)), is_standing(command)


def is_standing(command: Array) -> Array:
    """Whether a command [3] means: stand still."""
    return jnp.linalg.norm(command) < STANDING_SPEED


def is_to_stand(c: JoystickParams, command: Array, physics: PhysState, feet: Array) -> Array:
    """Whether a robot must stand still: its command [3] says so, and no push moves it.

    feet: [K] velocities of the feet under the base, m/s, as the policy's inputs give them. A robot
    that sees the whole phase is expected to step by it.
    """
    off = (c.recovery_speed > 0.0) & (jnp.linalg.norm(physics.qvel[:2]) >= c.recovery_speed)
    fastest = jnp.max(jnp.abs(feet))
    off |= (c.standing_phase_speed > 0.0) & (fastest >= c.standing_phase_speed)
    return is_standing(command) & ~(off & (physics.time >= c.recovery_after_s))
