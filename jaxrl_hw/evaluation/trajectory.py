"""A policy to be driven, and the trajectory of the robots that it drives. Never imports jax."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from jaxrl_hw.config.schema import Config


class TrainedPolicy(Protocol):
    """A policy with its origin: `jaxrl_hw.Run` is one, and what `cli.trained_policy` opens."""

    @property
    def config(self) -> Config:
        """Of the run that trained it."""

    @property
    def policy(self) -> Any:
        """A `Policy`, or a function of observations [N, O] to actions [N, A]."""

    @property
    def iteration(self) -> int:
        """Iterations that it was trained for."""


class Step(NamedTuple):
    """One control step of N robots; leaves [N, ...], in a `Trajectory` [T, N, ...].

    qpos and qvel are those at the step's end, or of the new start where the robot fell in it.
    """

    qpos: Any  # [N, nq] m, unit quaternions wxyz, rad
    qvel: Any  # [N, nv] m/s (world), rad/s (base frame)
    command: Any  # [N, 3] m/s, m/s, rad/s
    fell: Any  # [N] bool: the episode was terminated in this step, and the robot reset
    reward: Any  # [N]
    diagnostics: dict[str, Any]  # [N] each, the task's own figures


class Trajectory(NamedTuple):
    """What `drive` recorded: T control steps of N robots, as NumPy arrays."""

    task: str
    control_dt: float  # s
    timestep: float  # s
    steps: Step  # leaves [T, N, ...]

    def of_robots(self, which: slice) -> Trajectory:
        """The trajectory of some of the robots."""
        *arrays, diagnostics = self.steps
        qpos, qvel, command, fell, reward = (array[:, which] for array in arrays)
        chosen = {name: values[:, which] for name, values in diagnostics.items()}
        return self._replace(steps=Step(qpos, qvel, command, fell, reward, chosen))

    @property
    def qpos(self) -> np.ndarray:
        """[T, N, nq]"""
        return np.asarray(self.steps.qpos)

    @property
    def commands(self) -> np.ndarray:
        """[T, N, 3] m/s, m/s, rad/s"""
        return np.asarray(self.steps.command)

    @property
    def velocity(self) -> np.ndarray:
        """[T, N, 3] m/s: the floating base's linear velocity in its own frame."""
        return rotate_inverse(self.qpos[..., 3:7], np.asarray(self.steps.qvel)[..., :3])

    @property
    def yaw_rate(self) -> np.ndarray:
        """[T, N] rad/s: the floating base's angular velocity about its own z axis."""
        return np.asarray(self.steps.qvel)[..., 5]

    @property
    def self_contacts(self) -> np.ndarray:
        """[T, N] points at which parts of the robot touch, as a mean over the physics steps."""
        return np.asarray(self.steps.diagnostics["self_contacts"])

    @property
    def power(self) -> np.ndarray:
        """[T, N] W: mechanical power, the sum over joints of |torque * velocity|."""
        return np.asarray(self.steps.diagnostics["power"])

    @property
    def fell(self) -> np.ndarray:
        """[T, N] bool: the robot fell in this step."""
        return np.asarray(self.steps.fell)

    @property
    def falls(self) -> np.ndarray:
        """[N] int: how often each robot fell."""
        return self.fell.sum(axis=0)


def rotate_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """World-frame vectors [..., 3] in the body frames of unit quaternions [..., 4], wxyz."""
    w, axis = quat[..., :1], quat[..., 1:]
    cross = np.cross(axis, vector)
    return vector - 2.0 * w * cross + 2.0 * np.cross(axis, cross)
