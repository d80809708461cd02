"""Domain randomization: one episode's own model and start pose.

MuJoCo's precomputed constants that depend on mass (`body_invweight0` and others, which scale
constraint softness) stay at the nominal model's values in both engines. Over the ranges used here
that changes contact softness by a few percent; recomputing them would cost a pass over the model
per reset.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics.api import ModelParams, PhysState
from jaxrl_hw.envs.tasks.joystick import geometry
from jaxrl_hw.envs.tasks.joystick.layout import Legged
from jaxrl_hw.envs.tasks.joystick.params import JoystickParams

FIELDS = (
    "body_mass",
    "body_inertia",
    "body_ipos",
    "body_subtreemass",
    "dof_frictionloss",
    "dof_armature",
    "geom_friction",
)


def subtree_matrix(model: Any) -> np.ndarray:
    """[nbody, nbody] of 0 and 1: row i sums the masses of body i and all that hangs on it."""
    matrix = np.eye(model.nbody, dtype=np.float32)
    for body in range(model.nbody - 1, 0, -1):
        matrix[model.body_parentid[body]] += matrix[body]
    return matrix


def draw_params(
    params: JoystickParams, model: Any, torso: int, floor: int, nominal: ModelParams, key: Array
) -> ModelParams:
    """One episode's model values. Consumes key.

    Args:
      params: ranges.
      model: host-side MjModel.
      torso: id of the body whose mass and centre of mass vary on their own.
      floor: id of the floor geom; by its priority its friction decides every foot contact.
      nominal: the model's own values of `FIELDS`.
      key: consumed.
    """
    nbody, nv = model.nbody, model.nv
    u = jax.random.uniform(key, (nbody + 2 * nv + 5,), minval=-1.0, maxval=1.0)
    u_link, u_fric, u_arm, u_rest = jnp.split(u, np.cumsum([nbody, nv, nv]))
    factor = _between(u_link, params.link_mass)
    mass = nominal["body_mass"] * factor
    heavier = mass.at[torso].add(_between(u_rest[0], params.torso_mass))
    # a heavier torso is taken to be denser: its inertia grows with its mass
    inertia = (
        nominal["body_inertia"]
        * (factor * jnp.where(mass > 0.0, heavier / jnp.maximum(mass, 1e-9), 1.0))[:, None]
    )
    dry = _between(u_fric, params.log_joint_friction)
    offset = params.torso_offset * u_rest[1:4]
    return {
        "body_mass": heavier,
        "body_inertia": inertia,
        "body_ipos": nominal["body_ipos"].at[torso].add(offset),
        "body_subtreemass": jnp.asarray(subtree_matrix(model)) @ heavier,
        "dof_frictionloss": nominal["dof_frictionloss"] * jnp.exp(dry),
        "dof_armature": nominal["dof_armature"] * _between(u_arm, params.armature),
        "geom_friction": nominal["geom_friction"]
        .at[floor, 0]
        .set(_between(u_rest[4], params.friction)),
    }


def draw_pose(params: JoystickParams, body: Legged, at_home: PhysState, key: Array) -> PhysState:
    """The home pose with a random heading, joint offsets and base velocity. Consumes key.

    Args:
      params: how large each may be.
      body: the robot's joints.
      at_home: the home pose.
      key: consumed.
    """
    u = jax.random.uniform(key, (len(body.home) + 7,), minval=-1.0, maxval=1.0)
    joints = jnp.clip(body.home + params.start_joint * u[7:], body.lower, body.upper)
    yaw = geometry.yaw_quat(params.start_yaw * u[0])
    qpos = at_home.qpos.at[3:7].set(yaw).at[body.qadr].set(joints)
    # bent and stretched legs both fit above the floor
    qpos = qpos.at[2].add(jnp.where(params.start_joint > 0.0, 0.01, 0.0))
    qvel = at_home.qvel.at[:6].set(params.start_velocity * u[1:7])
    return at_home._replace(qpos=qpos, qvel=qvel)


def _between(unit: Array, bounds: tuple[float, float]) -> Array:
    """Map [-1, 1] onto bounds."""
    low, high = bounds
    return (low + high) / 2 + unit * (high - low) / 2
