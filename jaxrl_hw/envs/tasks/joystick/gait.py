"""The gait: which foot stands and which swings when, and how a leg lifts its foot."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array

from jaxrl_hw.envs.tasks.joystick import commands, observations
from jaxrl_hw.envs.tasks.joystick.layout import Legged
from jaxrl_hw.envs.tasks.joystick.params import JoystickParams
from jaxrl_hw.envs.tasks.joystick.settings import observation_sizes
from jaxrl_hw.types import Motion

_STEPS, _DAMPING = 50, 1e-4


def wanted(
    params: JoystickParams, robot: Any, phase: Array, standing: Array
) -> tuple[Array, Array]:
    """Which feet should be down (bool [F]) and how high each should be (m [F]).

    A foot stands for the first part of its cycle, then swings along a half sine.

    phase: [] of the gait, 0 to 1. standing: bool [], all feet stay down.
    """
    foot_phase = (phase + jnp.asarray(robot.gait_offsets, jnp.float32)) % 1.0
    swing = (foot_phase - (1.0 - params.swing_fraction)) / params.swing_fraction
    stance = (swing < 0.0) | standing
    height = params.swing_height * jnp.sin(jnp.pi * jnp.maximum(swing, 0.0))
    return stance, jnp.where(stance, 0.0, height)


def stepping_in_place(params: JoystickParams, robot: Any, model: Any, body: Legged) -> Motion:
    """Stepping in place, open loop: key -> (normalized observation [O], action [A]).

    The action fits the observation's phase; it is the home pose where the command is to stand
    still. All other entries of the observation are noise. The motion does not balance the robot,
    but a policy that is fitted to it steps from its first attempt on. Finding the rhythm of a gait
    by chance costs millions of samples.
    """
    lifted = np.stack([lifted_pose(model, foot, body, params.swing_height) for foot in robot.feet])
    per_action = lifted / np.asarray(robot.action_scale, np.float32)
    size, _ = observation_sizes(len(body.home), len(robot.feet))

    def sample(key: Array) -> tuple[Array, Array]:
        key_command, key_phase, key_rest = jax.random.split(key, 3)
        command, stands = commands.draw_normalized(params, key_command)
        phase = jax.random.uniform(key_phase)
        _, height = wanted(params, robot, phase, standing=stands)
        noise = jax.random.normal(key_rest, (size,))
        visible = jnp.where(stands, params.standing_phase, 1.0)
        seen = observations.normalized_like(noise, command, phase, visible)
        return seen, (height / params.swing_height) @ jnp.asarray(per_action)

    return sample


def lifted_pose(model: Any, foot: str, body: Legged, height: float) -> np.ndarray:
    """Joint offsets from home [A], rad, that lift one foot by height, m, and leave the others.

    Damped least squares about the home pose, with the six joints nearest to the foot: what lies
    above them moves the other leg too. A leg of five joints or more keeps the sole level; one of
    fewer places the foot's point only. Joints stay inside their soft range.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    mujoco.mj_kinematics(model, data)
    site = model.site(foot).id
    goal = data.site_xpos[site] + np.array([0.0, 0.0, height])
    frame = data.site_xmat[site].reshape(3, 3).copy()
    for _ in range(_STEPS):
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        jac = np.zeros((6, model.nv))
        mujoco.mj_jacSite(model, data, jac[:3], jac[3:], site)
        jac = jac[:, body.vadr]
        leg = np.flatnonzero(np.abs(jac).sum(axis=0))[-6:]
        jac[:, np.setdiff1d(np.arange(jac.shape[1]), leg)] = 0.0
        now = data.site_xmat[site].reshape(3, 3)
        # half the sum of the axes' cross products: the rotation vector, to first order
        turn = 0.5 * np.cross(now.T, frame.T).sum(axis=0)
        error = np.concatenate([goal - data.site_xpos[site], turn])
        if len(leg) < 5:
            jac, error = jac[:3], error[:3]
        step = jac.T @ np.linalg.solve(jac @ jac.T + _DAMPING * np.eye(len(jac)), error)
        data.qpos[body.qadr] = np.clip(data.qpos[body.qadr] + step, body.lower, body.upper)
    return np.asarray(data.qpos[body.qadr] - body.home, np.float32)
