"""The joystick task's parameters: what may change over a run or differ between robots."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig

Number = Any
"""A float, or an array [] of one."""
Range = tuple[Number, Number]
"""Low and high."""


class JoystickParams(NamedTuple):
    """The settings of the same names in `JoystickConfig`, as a pytree."""

    vx: Range  # m/s
    vy: Range  # m/s
    yaw_rate: Range  # rad/s
    zero_command: Number  # probability
    resample_s: Range  # s
    crouch: Number  # m
    velocity_sigma: Number  # (m/s)^2
    velocity_fine_sigma: Number  # (m/s)^2
    yaw_sigma: Number  # (rad/s)^2
    height_sigma: Number  # m^2
    swing_height: Number  # m
    swing_fraction: Number
    standing_phase: Number
    standing_phase_speed: Number  # m/s
    recovery_speed: Number  # m/s
    recovery_after_s: Number  # s
    push_speed: Number  # m/s
    push_interval_s: Number  # s
    push_sideways: Number  # probability
    noise: Number
    friction: Range
    link_mass: Range
    torso_mass: Range  # kg
    torso_offset: Number  # m
    log_joint_friction: Range  # logarithms of the range
    log_joint_damping: Range  # logarithms of the range
    armature: Range
    kp: Range
    kd: Range
    torque_limit: Range
    joint_offset: Number  # rad
    imu_tilt: Number  # rad
    gyro_bias: Number  # rad/s
    action_delay: Range  # s
    observation_delay: Range  # s
    start_yaw: Number  # rad
    start_joint: Number  # rad
    start_velocity: Number  # m/s and rad/s
    reward: dict[str, Number]  # weight by term


def params_of(settings: JoystickConfig) -> JoystickParams:
    """The parameters of settings, as plain numbers."""
    same = {name: getattr(settings, name) for name in JoystickParams._fields if name not in _OWN}
    return JoystickParams(
        **same,
        log_joint_friction=_log(settings.joint_friction),
        log_joint_damping=_log(settings.joint_damping),
        reward=dataclasses.asdict(settings.reward),
    )


def _log(bounds: Range) -> Range:
    low, high = bounds
    return math.log(low), math.log(high)


_OWN = ("log_joint_friction", "log_joint_damping", "reward")


class Parts(NamedTuple):
    """What of a real robot a task simulates; what it leaves out costs nothing."""

    gains: bool  # own kp, kd and torque limits
    damping: bool  # own joint damping
    zeros: bool  # encoders with wrong zeros
    imu: bool  # a tilted IMU, a biased gyro
    action_delay: bool
    observation_delay: bool


ALL = Parts(*(True,) * len(Parts._fields))
NONE = Parts(*(False,) * len(Parts._fields))


def parts_of(stages: Sequence[JoystickParams]) -> Parts:
    """The parts that any of these parameters need, all plain numbers."""

    def any_other(neutral: Any, *names: str) -> bool:
        return any(getattr(params, name) != neutral for params in stages for name in names)

    return Parts(
        gains=any_other((1.0, 1.0), "kp", "kd", "torque_limit"),
        damping=any_other((0.0, 0.0), "log_joint_damping"),
        zeros=any_other(0.0, "joint_offset"),
        imu=any_other(0.0, "imu_tilt", "gyro_bias"),
        action_delay=any_other((0.0, 0.0), "action_delay"),
        observation_delay=any_other((0.0, 0.0), "observation_delay"),
    )
