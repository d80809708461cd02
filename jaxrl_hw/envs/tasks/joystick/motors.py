"""What a robot's motors do with an action: late, with gains and limits of their own."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.envs.physics.api import ModelParams, late_ctrl
from jaxrl_hw.envs.tasks.joystick.layout import Legged
from jaxrl_hw.envs.tasks.joystick.sensors import Own


class Law(NamedTuple):
    """torque = clip(kp (ctrl - angle) - kd velocity), [A] each."""

    kp: Any  # N m/rad
    kd: Any  # N m s/rad
    limit: Any  # N m


def law(body: Legged, params: ModelParams) -> Law:
    """An episode's own law; the model's where its gains are not drawn."""
    if "actuator_gainprm" not in params:
        return Law(body.kp, body.kd, body.torque_limit)
    limit = params["actuator_forcerange"][:, 1]
    return Law(
        params["actuator_gainprm"][:, 0],
        -params["actuator_biasprm"][:, 2],
        jnp.where(jnp.isfinite(body.torque_limit), limit, jnp.inf),
    )


def torque(law: Law, ctrl: Array, joint: Array, velocity: Array) -> Array:
    """[A] N m, of targets and angles in rad and velocities in rad/s."""
    return jnp.clip(law.kp * (ctrl - joint) - law.kd * velocity, -law.limit, law.limit)


def ctrl_of(own: Own, target: Array) -> Array:
    """The joint angles [A], rad, at which the encoders read a target [A], rad."""
    return target - own["joint_offset"] if "joint_offset" in own else target


def ctrl(own: Own, before: Array, now: Array) -> Array:
    """What the engine is given in a control step, for the last target [A] and this one: [A], or
    [2 A + 1] where actions come late."""
    if "action_delay" not in own:
        return ctrl_of(own, now)
    return late_ctrl(ctrl_of(own, before), ctrl_of(own, now), own["action_delay"])


def at_last(own: Own, substeps: int, before: Array, now: Array) -> Array:
    """The ctrl [A] that holds at the end of a control step of so many physics steps."""
    if "action_delay" not in own:
        return ctrl_of(own, now)
    return ctrl_of(own, jnp.where(own["action_delay"] >= substeps, before, now))
