"""What a driven robot did, control step by control step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np


class Moment(NamedTuple):
    """One control step of N robots; leaves [N, ...], in a `Recording` [T, N, ...].

    qpos and qvel are from the step's end, or of the new start where the robot fell in it.
    """

    qpos: Any  # [N, nq] m, unit quaternions wxyz, rad
    qvel: Any  # [N, nv] m/s (world), rad/s (base frame)
    command: Any  # [N, 3] m/s, m/s, rad/s: what the robot was told
    fell: Any  # [N] bool: the episode ended in this step, and the robot was set back
    reward: Any  # [N]
    diagnostics: dict[str, Any]  # [N] each, the task's own figures


class Recording(NamedTuple):
    """What `drive` saw: T control steps of N robots, as NumPy arrays."""

    task: str
    control_dt: float  # s
    timestep: float  # s
    moments: Moment  # leaves [T, N, ...]

    def columns(self, which: slice) -> Recording:
        """The recording of some of the robots."""
        moments = jax.tree.map(lambda x: np.asarray(x)[:, which], self.moments)
        return self._replace(moments=moments)

    @property
    def qpos(self) -> np.ndarray:
        """[T, N, nq]"""
        return np.asarray(self.moments.qpos)

    @property
    def commands(self) -> np.ndarray:
        """[T, N, 3] m/s, m/s, rad/s"""
        return np.asarray(self.moments.command)

    @property
    def velocity(self) -> np.ndarray:
        """[T, N, 3] m/s: the floating base's linear velocity in its own frame."""
        return rotate_inverse(self.qpos[..., 3:7], np.asarray(self.moments.qvel)[..., :3])

    @property
    def yaw_rate(self) -> np.ndarray:
        """[T, N] rad/s: the floating base's angular velocity about its own z axis."""
        return np.asarray(self.moments.qvel)[..., 5]

    @property
    def power(self) -> np.ndarray:
        """[T, N] W: mechanical power, the sum over joints of |torque * velocity|."""
        return np.asarray(self.moments.diagnostics["power"])

    @property
    def fell(self) -> np.ndarray:
        """[T, N] bool: the robot fell in this step."""
        return np.asarray(self.moments.fell)

    @property
    def falls(self) -> np.ndarray:
        """[N] int: how often each robot fell."""
        return self.fell.sum(axis=0)


def rotate_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """World-frame vectors [..., 3] in the body frames of unit quaternions [..., 4], wxyz."""
    w, axis = quat[..., :1], quat[..., 1:]
    cross = np.cross(axis, vector)
    return vector - 2.0 * w * cross + 2.0 * np.cross(axis, cross)
