"""What a control step has led to: what rewards, figures and observations are made of."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics.api import ModelParams, PhysState
from jaxrl_hw.envs.tasks.joystick import commands, gait, geometry, motors, observations, rewards
from jaxrl_hw.envs.tasks.joystick.layout import Legged
from jaxrl_hw.envs.tasks.joystick.params import JoystickParams
from jaxrl_hw.envs.tasks.joystick.state import Ahead, Joystick, JoystickState, target_of

CONTACT_FORCE = 1.0
"""N: a foot that carries more than this is on the ground."""


def diagnostics(t: Joystick, signals: rewards.Signals) -> dict[str, Array]:
    """Figures a roboticist asks for; `rewards` can look well where these do not."""
    off = jnp.abs(signals.velocity[:2] - signals.command[:2])
    return {
        "tracking/vx_error": off[0],
        "tracking/vy_error": off[1],
        "tracking/velocity_error": rewards.velocity_error(signals),
        "tracking/yaw_error": rewards.yaw_error(signals),
        "falls_per_min": signals.fell * (60.0 / t.dt),
        "foot_clearance": jnp.max(signals.foot_height),
        "power": signals.power,
        "self_contacts": signals.self_contacts,
    }


def of(
    t: Joystick,
    p: JoystickParams,
    state: JoystickState,
    params: ModelParams,
    physics: PhysState,
    sensordata: Array,
    action: Array,
) -> rewards.Signals:
    """What the rewards read, of the truth, after a control step with an action [A]."""
    b = t.body
    quat = physics.qpos[3:7]
    gravity = geometry.gravity_direction(quat)
    joint, joint_velocity = physics.qpos[b.qadr], physics.qvel[b.vadr]
    substeps = round(t.dt / t.timestep)
    ctrl = motors.at_last(state.own, substeps, target_of(t, state.action), target_of(t, action))
    torque = motors.torque(motors.law(b, params), ctrl, joint, joint_velocity)
    feet = jnp.concatenate([physics.qvel[3:6], joint_velocity]) @ b.feet_from_rates
    standing = commands.is_to_stand(p, state.command, physics, feet)
    stance, swing_height = gait.wanted(p, t.robot, state.phase, standing)
    fell = (physics.qpos[2] < t.robot.fall_height) | (-gravity[2] < np.cos(t.settings.fall_tilt))
    return rewards.Signals(
        command=state.command,
        standing=standing,
        velocity=geometry.rotate_inverse(quat, physics.qvel[:3]),
        angular_velocity=physics.qvel[3:6],
        gravity=gravity,
        height_error=physics.qpos[2] - (t.robot.base_height - p.crouch),
        joint=joint - b.home,
        beyond_limit=jnp.maximum(b.lower - joint, 0.0) + jnp.maximum(joint - b.upper, 0.0),
        power=jnp.sum(jnp.abs(torque * joint_velocity)),
        action=action,
        last_action=state.action,
        posture=jnp.asarray(t.robot.posture, jnp.float32),
        foot_height=sensordata[b.foot_pos[:, 2]] - b.foot_rest,
        foot_speed=jnp.linalg.norm(sensordata[b.foot_vel[:, :2]], axis=-1),
        foot_sinking=jnp.maximum(-sensordata[b.foot_vel[:, 2]], 0.0),
        contact=sensordata[b.foot_force] > CONTACT_FORCE,
        self_contacts=_self_contacts(b, sensordata),
        stance=stance,
        swing_height=swing_height,
        fell=fell,
        velocity_sigma=p.velocity_sigma,
        velocity_fine_sigma=p.velocity_fine_sigma,
        yaw_sigma=p.yaw_sigma,
        height_sigma=p.height_sigma,
    )


def _self_contacts(b: Legged, sensordata: Array) -> Array:
    """Points [] at which the robot's own parts touch; 0 for a model that does not count them."""
    if b.contacts is None:
        return jnp.zeros(())
    return sensordata[b.contacts[0]] - sensordata[b.contacts[1]]


def readings(
    t: Joystick, state: JoystickState, params: ModelParams, physics: PhysState, sensordata: Array
) -> observations.Readings:
    """What there is to see, of the truth."""
    b, quat = t.body, physics.qpos[3:7]
    return observations.Readings(
        gyro=physics.qvel[3:6],
        gravity=geometry.gravity_direction(quat),
        command=state.command,
        joint=physics.qpos[b.qadr] - b.home,
        joint_velocity=physics.qvel[b.vadr],
        action=state.action,
        phase=state.phase,
        velocity=geometry.rotate_inverse(quat, physics.qvel[:3]),
        base_height=physics.qpos[2] - t.robot.base_height,
        foot_height=sensordata[b.foot_pos[:, 2]] - b.foot_rest,
        foot_contact=(sensordata[b.foot_force] > CONTACT_FORCE).astype(jnp.float32),
        friction=params["geom_friction"][t.floor, 0],
        ahead=_ahead(t, state, quat),
    )


def _ahead(t: Joystick, state: JoystickState, quat: Array) -> Array:
    if not isinstance(state.ahead, Ahead):
        return jnp.zeros(0)
    waits = t.dt * state.push_left, t.dt * state.command_left
    return observations.ahead_entries(
        quat, state.command, state.ahead.command, state.ahead.push, waits
    )
