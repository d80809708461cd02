"""Reward terms of the joystick task: one term, one function of the step's signals.

Weights are in `JoystickReward`, under the names of `TERMS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.envs.tasks.joystick.commands import is_standing

LANDING = 0.03
"""A foot that sinks below this height is about to land, m."""


class Signals(NamedTuple):
    """What a control step did, in SI units."""

    command: Array  # [3] m/s, m/s, rad/s
    standing: Array  # bool [], the robot must stand still
    velocity: Array  # [3] m/s, base frame
    angular_velocity: Array  # [3] rad/s, base frame
    gravity: Array  # [3] unit vector, base frame
    height_error: Array  # [] m, base height above its target
    joint: Array  # [A] rad, from home
    beyond_limit: Array  # [A] rad, past the soft range
    power: Array  # [] W
    action: Array  # [A]
    last_action: Array  # [A]
    posture: Array  # [A] weights of the stay-near-home penalty
    foot_height: Array  # [F] m above where the foot stands
    foot_speed: Array  # [F] m/s, horizontal
    foot_sinking: Array  # [F] m/s, downward
    contact: Array  # bool [F]
    self_contacts: Array  # [] points at which parts of the robot touch each other
    stance: Array  # bool [F], the phase wants this foot down
    swing_height: Array  # [F] m, the phase wants this foot so high
    fell: Array  # bool []
    velocity_sigma: Any  # (m/s)^2
    velocity_fine_sigma: Any  # (m/s)^2
    yaw_sigma: Any  # (rad/s)^2
    height_sigma: Any  # m^2


def velocity(s: Signals) -> Array:
    return jnp.exp(-_squared_velocity_error(s) / s.velocity_sigma)


def velocity_fine(s: Signals) -> Array:
    return jnp.exp(-_squared_velocity_error(s) / s.velocity_fine_sigma)


def _squared_velocity_error(s: Signals) -> Array:
    return jnp.sum((s.velocity[:2] - s.command[:2]) ** 2)


def yaw_rate(s: Signals) -> Array:
    return jnp.exp(-((s.angular_velocity[2] - s.command[2]) ** 2) / s.yaw_sigma)


def foot_height(s: Signals) -> Array:
    # a swinging foot may be higher than the curve, as a long step needs; a standing one may not
    below = jnp.maximum(s.swing_height - s.foot_height, 0.0)
    error = jnp.where(s.stance, s.foot_height, below)
    return jnp.exp(-jnp.sum(error**2) / s.height_sigma)


def foot_contact(s: Signals) -> Array:
    return jnp.sum((s.contact == s.stance).astype(jnp.float32))


def slip(s: Signals) -> Array:
    return jnp.sum(jnp.where(s.contact, s.foot_speed**2, 0.0))


def landing(s: Signals) -> Array:
    lands = (s.foot_height < LANDING) & _is_to_walk(s)
    return jnp.sum(jnp.where(lands, s.foot_sinking**2, 0.0))


def _is_to_walk(s: Signals) -> Array:
    # a robot that stands and was pushed may spend any power to recover
    return ~is_standing(s.command)


def self_contact(s: Signals) -> Array:
    return s.self_contacts


def vertical_velocity(s: Signals) -> Array:
    return s.velocity[2] ** 2


def roll_pitch_rate(s: Signals) -> Array:
    return jnp.sum(s.angular_velocity[:2] ** 2)


def tilt(s: Signals) -> Array:
    return jnp.sum(s.gravity[:2] ** 2)


def base_height(s: Signals) -> Array:
    return s.height_error**2


def action_rate(s: Signals) -> Array:
    return jnp.sum((s.action - s.last_action) ** 2)


def velocity_error(s: Signals) -> Array:
    return jnp.linalg.norm(s.velocity[:2] - s.command[:2])


def yaw_error(s: Signals) -> Array:
    return jnp.abs(s.angular_velocity[2] - s.command[2])


def power(s: Signals) -> Array:
    return s.power


def walking_power(s: Signals) -> Array:
    return jnp.where(_is_to_walk(s), s.power, 0.0)


def joint_limit(s: Signals) -> Array:
    return jnp.sum(s.beyond_limit)


def posture(s: Signals) -> Array:
    return jnp.sum(s.posture * s.joint**2)


def stand_still(s: Signals) -> Array:
    return jnp.where(s.standing, jnp.sum(s.joint**2), 0.0)


def alive(s: Signals) -> Array:
    return 1.0 - s.fell.astype(jnp.float32)


def fall(s: Signals) -> Array:
    return s.fell.astype(jnp.float32)


TERMS: dict[str, Callable[[Signals], Array]] = {
    term.__name__: term
    for term in (
        velocity,
        velocity_fine,
        yaw_rate,
        foot_height,
        foot_contact,
        slip,
        landing,
        self_contact,
        vertical_velocity,
        roll_pitch_rate,
        tilt,
        base_height,
        action_rate,
        velocity_error,
        yaw_error,
        power,
        walking_power,
        joint_limit,
        posture,
        stand_still,
        alive,
        fall,
    )
}
ONCE = frozenset({"fall"})
"""Terms paid once, not per second."""


def weighted(signals: Signals, weights: Mapping[str, Any], dt: float) -> dict[str, Array]:
    """Each term's part of the step's reward.

    Args:
      signals: of one control step of one environment.
      weights: per term a number, or array [].
      dt: control step, s.
    """
    return {
        name: term(signals) * (weights[name] if name in ONCE else weights[name] * dt)
        for name, term in TERMS.items()
    }
