"""The joystick task's parameters: what may change over a run or differ between robots."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, NamedTuple

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
    swing_exponent: Number
    swing_fraction: Number
    standing_phase: Number
    standing_phase_speed: Number  # m/s
    recovery_speed: Number  # m/s
    recovery_after_s: Number  # s
    push_speed: Number  # m/s
    push_interval_s: Number  # s
    noise: Number
    friction: Range
    link_mass: Range
    torso_mass: Range  # kg
    torso_offset: Number  # m
    log_joint_friction: Range  # logarithms of the range
    armature: Range
    start_yaw: Number  # rad
    start_joint: Number  # rad
    start_velocity: Number  # m/s and rad/s
    reward: dict[str, Number]  # weight by term


def params_of(settings: JoystickConfig) -> JoystickParams:
    """The parameters of settings, as plain numbers."""
    same = {name: getattr(settings, name) for name in JoystickParams._fields if name not in _OWN}
    low, high = settings.joint_friction
    return JoystickParams(
        **same,
        log_joint_friction=(math.log(low), math.log(high)),
        reward=dataclasses.asdict(settings.reward),
    )


_OWN = ("log_joint_friction", "reward")
