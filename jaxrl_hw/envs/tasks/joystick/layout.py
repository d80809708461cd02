"""Where a legged robot's joints, motors and sensors stand in its model's arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import mujoco
import numpy as np

from jaxrl_hw.envs.physics.api import contact_entries, sensor_slices, sensordata_at
from jaxrl_hw.errors import UserError


class Legged(NamedTuple):
    """Indices and constants of a floating-base robot; joints are in actuator order throughout."""

    qadr: np.ndarray  # int [A], joint positions in qpos
    vadr: np.ndarray  # int [A], joint velocities in qvel
    home: np.ndarray  # [A] rad, the pose that actions are relative to
    lower: np.ndarray  # [A] rad, soft joint limits
    upper: np.ndarray  # [A] rad
    kp: np.ndarray  # [A] N m/rad
    kd: np.ndarray  # [A] N m s/rad
    torque_limit: np.ndarray  # [A] N m, infinite where a motor has none
    foot_pos: np.ndarray  # int [F, 3], in sensordata
    foot_vel: np.ndarray  # int [F, 3]
    foot_force: np.ndarray  # int [F]
    foot_rest: np.ndarray  # [F] m, height of each foot's site when it stands
    contacts: np.ndarray | None  # int [2], counts of all contacts and of those with the floor
    feet_from_rates: np.ndarray  # [3 + A, 2 F]; see `foot_velocities`


def legged_layout(model: Any, feet: tuple[str, ...], soft_limit: float) -> Legged:
    """Read the layout off a model.

    Args:
      model: with a free joint first, position actuators on hinges, and the sensors named in
        `jaxrl_hw.envs.robots.RobotSpec`.
      feet: foot names.
      soft_limit: part of each joint's range, about its middle, to use freely.

    Raises:
      UserError: the model lacks what a legged task needs; says which part.
    """
    slices = sensor_slices(model)
    wanted = [f"{foot}_{kind}" for foot in feet for kind in ("pos", "vel", "force")]
    missing = [name for name in wanted if name not in slices]
    if missing:
        raise UserError(f"the robot's MJCF lacks the sensors {', '.join(missing)}")
    if model.njnt == 0 or model.jnt_type[0] != mujoco.mjtJoint.mjJNT_FREE:
        raise UserError("a legged task needs a model whose first joint is a free joint")
    joints = model.actuator_trnid[:, 0]
    qadr, vadr = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    limited = model.jnt_limited[joints].astype(bool)
    low, high = model.jnt_range[joints].T
    middle, half = (low + high) / 2, (high - low) / 2 * soft_limit
    forced = model.actuator_forcelimited.astype(bool)
    torque_limit = np.where(forced, model.actuator_forcerange[:, 1], np.inf)
    entries = np.arange(model.nsensordata)
    foot_pos = np.stack([entries[slices[f"{foot}_pos"]] for foot in feet])
    return Legged(
        qadr=qadr,
        vadr=vadr,
        home=model.key("home").qpos[qadr].astype(np.float32),
        lower=np.where(limited, middle - half, -np.inf).astype(np.float32),
        upper=np.where(limited, middle + half, np.inf).astype(np.float32),
        kp=model.actuator_gainprm[:, 0].astype(np.float32),
        kd=-model.actuator_biasprm[:, 2].astype(np.float32),
        torque_limit=torque_limit.astype(np.float32),
        foot_pos=foot_pos,
        foot_vel=np.stack([entries[slices[f"{foot}_vel"]] for foot in feet]),
        foot_force=np.array([slices[f"{f}_force"].start for f in feet]),
        foot_rest=sensordata_at(model)[foot_pos[:, 2]],
        contacts=contact_entries(model),
        feet_from_rates=foot_velocities(model, feet, vadr),
    )


def action_limit(body: Legged, scale: np.ndarray) -> np.ndarray:
    """How far from 0 each entry of an action [A] moves its joint's target to the farther soft
    limit; half a turn for a joint without limits.

    scale: [A] rad per unit of action.
    """
    reach = np.maximum(body.upper - body.home, body.home - body.lower)
    return np.where(np.isfinite(reach), reach, np.pi).astype(np.float32) / scale


def foot_velocities(model: Any, feet: tuple[str, ...], vadr: np.ndarray) -> np.ndarray:
    """A matrix [3 + A, 2 F] from rates of gyro and joints, rad/s, to velocities of the feet, m/s.

    The velocities are forward and leftward, relative to the base. A standing foot moves backward as
    fast as the base moves forward, so they reveal a push. The matrix is exact at the home pose. A
    leg's Jacobian changes slowly, and detecting a push needs no more.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    rates = np.concatenate([[3, 4, 5], vadr])
    columns = []
    for foot in feet:
        jac = np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, jac, None, model.site(foot).id)
        columns += list(jac[:2, rates])
    return np.stack(columns, axis=-1).astype(np.float32)
