"""Domain randomization: one episode's own model, motors, sensors and start pose.

MuJoCo's precomputed constants that depend on mass (`body_invweight0` and others, which scale
constraint softness) stay at the nominal model's values in both engines. Over the ranges used here
that changes contact softness by a few percent; recomputing them would cost a pass over the model
per reset.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics.api import SERVO_FIELDS, ModelParams, PhysState
from jaxrl_hw.envs.tasks.joystick import geometry
from jaxrl_hw.envs.tasks.joystick.layout import Legged
from jaxrl_hw.envs.tasks.joystick.params import JoystickParams, Parts, Range
from jaxrl_hw.envs.tasks.joystick.sensors import Own

Numbers = dict[str, Array]
"""Uniform in [-1, 1], by what they are for."""

_ALWAYS = (
    "body_mass",
    "body_inertia",
    "body_ipos",
    "body_subtreemass",
    "dof_frictionloss",
    "dof_armature",
    "geom_friction",
)


def fields(parts: Parts) -> tuple[str, ...]:
    """Names of the MjModel arrays that differ from episode to episode."""
    gains = SERVO_FIELDS if parts.gains else ()
    return (*_ALWAYS, *(("dof_damping",) if parts.damping else ()), *gains)


def subtree_matrix(model: Any) -> np.ndarray:
    """[nbody, nbody] of 0 and 1: row i sums the masses of body i and all that hangs on it."""
    matrix = np.eye(model.nbody, dtype=np.float32)
    for body in range(model.nbody - 1, 0, -1):
        matrix[model.body_parentid[body]] += matrix[body]
    return matrix


def wanted_numbers(parts: Parts, model: Any) -> dict[str, int]:
    """How many random numbers each of an episode's own properties takes."""
    nbody, nv, nu = int(model.nbody), int(model.nv), int(model.nu)
    return {
        "link": nbody,
        "friction": nv,
        "armature": nv,
        "torso_mass": 1,
        "torso_offset": 3,
        "floor": 1,
        "kp": nu * parts.gains,
        "kd": nu * parts.gains,
        "torque_limit": nu * parts.gains,
        "damping": nv * parts.damping,
        "zeros": nu * parts.zeros,
        "imu_tilt": 3 * parts.imu,
        "gyro_bias": 3 * parts.imu,
        "action_delay": 1 * parts.action_delay,
        "observation_delay": 1 * parts.observation_delay,
    }


def named(wanted: dict[str, int], unit: Array) -> Numbers:
    """Numbers in [-1, 1) [sum of `wanted`] by what they are for."""
    ends = np.cumsum(list(wanted.values()))
    return dict(zip(wanted, jnp.split(unit, ends[:-1]), strict=True))


def model_params(
    params: JoystickParams, model: Any, torso: int, floor: int, nominal: ModelParams, u: Numbers
) -> ModelParams:
    """One episode's model values.

    Args:
      params: ranges.
      model: host-side MjModel.
      torso: id of the body whose mass and centre of mass vary on their own.
      floor: id of the floor geom; by its priority its friction decides every foot contact.
      nominal: the model's own values of `fields`.
      u: from `named`.
    """
    factor = _between(u["link"], params.link_mass)
    mass = nominal["body_mass"] * factor
    heavier = mass.at[torso].add(_between(u["torso_mass"][0], params.torso_mass))
    # a heavier torso is taken to be denser: its inertia grows with its mass
    inertia = (
        nominal["body_inertia"]
        * (factor * jnp.where(mass > 0.0, heavier / jnp.maximum(mass, 1e-9), 1.0))[:, None]
    )
    offset = params.torso_offset * u["torso_offset"]
    friction = _between(u["floor"][0], params.friction)
    return {
        "body_mass": heavier,
        "body_inertia": inertia,
        "body_ipos": nominal["body_ipos"].at[torso].add(offset),
        # exact: in TF32, the default of recent NVIDIA cards, a mass is off by a thousandth
        "body_subtreemass": jnp.matmul(
            jnp.asarray(subtree_matrix(model)), heavier, precision="highest"
        ),
        "dof_frictionloss": nominal["dof_frictionloss"]
        * jnp.exp(_between(u["friction"], params.log_joint_friction)),
        "dof_armature": nominal["dof_armature"] * _between(u["armature"], params.armature),
        "geom_friction": nominal["geom_friction"].at[floor, 0].set(friction),
        **_joint_params(params, nominal, u),
    }


def _joint_params(params: JoystickParams, nominal: ModelParams, u: Numbers) -> ModelParams:
    """Joint damping and the motors' law, as far as they differ from episode to episode."""
    drawn: ModelParams = {}
    if "dof_damping" in nominal:
        factor = jnp.exp(_between(u["damping"], params.log_joint_damping))
        drawn["dof_damping"] = nominal["dof_damping"] * factor
    gain, bias, force = SERVO_FIELDS
    if gain in nominal:
        kp, kd = _between(u["kp"], params.kp), _between(u["kd"], params.kd)
        limit = _between(u["torque_limit"], params.torque_limit)
        drawn[gain] = nominal[gain].at[:, 0].multiply(kp)
        drawn[bias] = nominal[bias].at[:, 1].multiply(kp).at[:, 2].multiply(kd)
        drawn[force] = nominal[force] * limit[:, None]
    return drawn


def own_of(
    params: JoystickParams, parts: Parts, u: Numbers, timestep: float, control_dt: float
) -> Own:
    """What one episode's robot has of its own beside its model; "measured" comes with its first
    readings.

    Args:
      params: ranges.
      parts: what the task simulates.
      u: from `named`.
      timestep, control_dt: a physics step and a control step, s.
    """
    own: Own = {}
    if parts.zeros:
        own["joint_offset"] = params.joint_offset * u["zeros"]
    if parts.imu:
        # half the rotation vector; exact to its third power
        quat = jnp.concatenate([jnp.ones(1), 0.5 * params.imu_tilt * u["imu_tilt"]])
        own["imu_quat"] = quat / jnp.linalg.norm(quat)
        own["gyro_bias"] = params.gyro_bias * u["gyro_bias"]
    if parts.action_delay:
        own["action_delay"] = jnp.round(_delay(u["action_delay"], params.action_delay) / timestep)
    if parts.observation_delay:
        seconds = _delay(u["observation_delay"], params.observation_delay)
        own["observation_delay"] = seconds / control_dt
    return own


def pose_size(body: Legged) -> int:
    """How many random numbers `start_pose` takes."""
    return len(body.home) + 7


def start_pose(params: JoystickParams, body: Legged, at_home: PhysState, u: Array) -> PhysState:
    """The home pose with a heading, joint offsets and base velocity by random numbers.

    Args:
      params: how large each may be.
      body: the robot's joints.
      at_home: the home pose.
      u: in [-1, 1), [pose_size].
    """
    joints = jnp.clip(body.home + params.start_joint * u[7:], body.lower, body.upper)
    yaw = geometry.yaw_quat(params.start_yaw * u[0])
    qpos = at_home.qpos.at[3:7].set(yaw).at[body.qadr].set(joints)
    # bent and stretched legs both fit above the floor
    qpos = qpos.at[2].add(jnp.where(params.start_joint > 0.0, 0.01, 0.0))
    qvel = at_home.qvel.at[:6].set(params.start_velocity * u[1:7])
    return at_home._replace(qpos=qpos, qvel=qvel)


def _delay(unit: Array, bounds: Range) -> Array:
    """Map [-1, 1] [1] onto bounds, s; below 0 there is none."""
    return jnp.maximum(_between(unit[0], bounds), 0.0)


def _between(unit: Array, bounds: Range) -> Array:
    """Map [-1, 1] onto bounds."""
    low, high = bounds
    return (low + high) / 2 + unit * (high - low) / 2
