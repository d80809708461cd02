"""What the joystick task keeps: its constants, and its state between control steps."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics.api import ModelParams, PhysState
from jaxrl_hw.envs.tasks.joystick.layout import Legged
from jaxrl_hw.envs.tasks.joystick.params import Parts
from jaxrl_hw.envs.tasks.joystick.sensors import NOTHING, Own
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig


class Ahead(NamedTuple):
    """What comes next, drawn in advance."""

    command: Array  # [3] m/s, m/s, rad/s, base frame
    push: Array  # [2] m/s, in the frame of the heading at that time


class JoystickState(NamedTuple):
    """What the task remembers between control steps."""

    command: Array  # [3] m/s, m/s, rad/s, base frame
    command_left: Array  # int32 [], control steps until the next command
    push_left: Array  # int32 [], control steps until the next push
    phase: Array  # [] of the gait, in cycles, 0 to 1
    action: Array  # [A], the last one
    own: Own = NOTHING  # of this robot; empty where the task simulates none of it
    ahead: Ahead | tuple[()] = ()  # () where events are drawn when they are due


class Joystick(NamedTuple):
    """The task's constants; its functions take them first."""

    settings: JoystickConfig
    robot: Any  # robots.RobotSpec
    model: Any  # mujoco.MjModel, host side
    body: Legged
    at_home: PhysState
    home_sensordata: np.ndarray
    parts: Parts
    nominal: ModelParams
    torso: int
    floor: int
    dt: float  # of a control step, s
    timestep: float  # of a physics step, s


def target_of(t: Joystick, action: Array) -> Array:
    """Joint targets [A] of an action [A], rad."""
    return jnp.asarray(t.body.home) + jnp.asarray(t.robot.action_scale, jnp.float32) * action
