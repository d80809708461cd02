"""A robot as its own controller runs it: PD torques, recomputed at every physics step.

In training MuJoCo's position actuators make the torque, inside an implicit integrator. Here the
actuators are bare motors, the integrator is explicit, and the torque is clip(kp (target - q) - kd
dq), as in a deployment script. A policy that exploits the training integrator fails here. This
engine also measures motor power, and can delay an action.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics import native
from jaxrl_hw.envs.physics.api import (
    SERVO_FIELDS,
    ModelParams,
    Physics,
    PhysState,
    contact_entries,
    ctrl_at,
)
from jaxrl_hw.errors import UserError

EXTRA = 2
"""Sensordata that this engine has beside the model's."""


def ctrl_width(model: mujoco.MjModel) -> int:
    """Entries of this engine's ctrl: targets before [nu], targets now [nu], delay [1]."""
    return 2 * int(model.nu) + 1


def make(
    model: mujoco.MjModel, substeps: int, fields: tuple[str, ...], threads: int = 0
) -> Physics:
    """The engine for a model whose actuators are position servos on joints.

    Its ctrl [2 nu + 1] is that of `api.late_ctrl`: the targets that held before, the targets that
    are to hold (rad), and after how many physics steps these arrive (0: at once). Its sensordata
    have `EXTRA` entries more than the model's, means over the control step: mechanical power, W,
    the sum over joints of |torque * velocity|; and the number of points at which the robot's own
    parts touch. The arguments are those of `jaxrl_hw.envs.physics.make_physics`.

    Raises:
      UserError: an actuator is not a position servo on a joint.
    """
    servo = model.actuator_biastype == int(mujoco.mjtBias.mjBIAS_AFFINE)
    if not servo.all():
        name = model.actuator(int(np.flatnonzero(~servo)[0])).name
        raise UserError(f'the servo engine needs position actuators, but "{name}" is none')
    loop = native.Loop(_pd_control(model, substeps), extra=EXTRA)
    # this engine makes the torque itself
    others = tuple(name for name in fields if name not in SERVO_FIELDS)
    made = native.make(_motors(model), substeps, others, threads, loop)

    def step(params: ModelParams, state: PhysState, ctrl: Array) -> tuple[PhysState, Array]:
        gain, bias, limit = (
            params[name] if name in fields else jnp.asarray(getattr(model, name), jnp.float32)
            for name in SERVO_FIELDS
        )
        law = [gain[:, 0], -bias[:, 2], limit[:, 1]]
        return made.step(params, state, jnp.concatenate([ctrl, *law]))

    return made._replace(engine="servo", model=model, fields=fields, step=step)


def _pd_control(model: mujoco.MjModel, substeps: int) -> Callable[[Any, np.ndarray], np.ndarray]:
    """(pool, ctrl [n, 5 nu + 1]) -> readings [n, EXTRA]; behind a late ctrl come kp, kd, limits."""
    joints, nu = model.actuator_trnid[:, 0], int(model.nu)
    qadr, vadr = model.jnt_qposadr[joints], model.jnt_dofadr[joints]
    limited = model.actuator_forcelimited.astype(bool)
    held = model.actuator_ctrllimited.astype(bool)
    low, high = np.where(held, model.actuator_ctrlrange.T, [[-np.inf], [np.inf]])
    counts = contact_entries(model)

    def advance(pool: Any, ctrl: np.ndarray) -> np.ndarray:
        late, law = ctrl[:, : 2 * nu + 1], ctrl[:, 2 * nu + 1 :]
        kp, kd, limit = law[:, :nu], law[:, nu : 2 * nu], law[:, 2 * nu :]
        limit = np.where(limited, limit, np.inf)
        measured = np.zeros((len(ctrl), EXTRA))
        sensed = pool.bind("sensordata")
        for k in range(substeps):
            target = np.clip(ctrl_at(late, k, nu), low, high)
            speed = pool.qvel[:, vadr]
            torque = np.clip(kp * (target - pool.qpos[:, qadr]) - kd * speed, -limit, limit)
            measured[:, 0] += np.abs(torque * speed).sum(axis=1)
            pool.ctrl[:] = torque
            pool.step(nstep=1)
            if counts is not None:
                measured[:, 1] += sensed[:, counts[0]] - sensed[:, counts[1]]
        return measured / substeps

    return advance


def _motors(model: mujoco.MjModel) -> mujoco.MjModel:
    """The same model with torque motors and MuJoCo's explicit (semi-implicit Euler) integrator."""
    motors = copy.copy(model)
    motors.actuator_biastype[:] = int(mujoco.mjtBias.mjBIAS_NONE)
    motors.actuator_biasprm[:] = 0.0
    motors.actuator_gainprm[:] = 0.0
    motors.actuator_gainprm[:, 0] = 1.0
    # these ranges were the servo's: its law keeps them
    motors.actuator_ctrllimited[:] = 0
    motors.actuator_forcelimited[:] = 0
    motors.opt.integrator = int(mujoco.mjtIntegrator.mjINT_EULER)
    return motors
