"""How fast a legged robot's feet move under it, from what its policy observes."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from jaxrl_hw.envs.tasks.joystick.layout import Legged


def foot_velocities(model: Any, feet: tuple[str, ...], body: Legged) -> np.ndarray:
    """A matrix [3 + A, 2 F] from rates of gyro and joints, rad/s, to velocities of the feet, m/s.

    The velocities are forward and leftward, relative to the base. A standing foot moves backward as
    fast as the base moves forward, so they reveal a push. The matrix is exact at the home pose. A
    leg's Jacobian changes slowly, and detecting a push needs no more.

    Args:
      model: host-side MjModel with a keyframe "home".
      feet: names of the feet's sites.
      body: the robot's joints.
    """
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    rates = np.concatenate([[3, 4, 5], body.vadr])
    columns = []
    for foot in feet:
        jac = np.zeros((3, model.nv))
        mujoco.mj_jacSite(model, data, jac, None, model.site(foot).id)
        columns += list(jac[:2, rates])
    return np.stack(columns, axis=-1).astype(np.float32)
