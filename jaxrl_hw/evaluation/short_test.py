"""A short test of a policy while it is still in training: commands, alone and with pushes."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.config.schema import Config
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.evaluation.scoring import commands_for, means, walking_rows
from jaxrl_hw.evaluation.trajectory import Trajectory
from jaxrl_hw.evaluation.worlds import CALM, Conditions

SECONDS = 5.0
"""Simulated time; `scoring.SETTLE_S` of it does not count. It has one push, after 2.5 s."""
PUSH_SPEED = 1.0
"""m/s, in a random direction."""


def short_test(config: Config, policy: Any, seed: int) -> dict[str, float]:
    """Drive a walking policy under the fixed commands, and again with a push, all side by side.

    Args:
      config: of a run with the joystick task.
      policy: as `drive` takes it.
      seed: of gait phases, starts and the push's direction.

    Returns:
      velocity_error (m/s), yaw_error (rad/s), falls (robots that fell), power (W), self_contacts
      (in 100 physics steps); and pushed_velocity_error and pushed_falls of the pushed ones.

    Raises:
      UserError: the robot cannot be driven on its own servos (`physics.servo`).
    """
    driven = _drive(config, policy, SECONDS, seed)
    half = driven.commands.shape[1] // 2
    calm = _figures(driven.of_robots(slice(half)))
    pushed = _figures(driven.of_robots(slice(half, None)))
    return {**calm, **{f"pushed_{name}": pushed[name] for name in ("velocity_error", "falls")}}


def compile_short_test(config: Config, policy: Any) -> None:
    """Compile what `short_test` runs, by driving one step. Raises UserError as that does."""
    _drive(config, policy, 0.0, 0)


def _drive(config: Config, policy: Any, seconds: float, seed: int) -> Trajectory:
    commands = commands_for(robot_spec(config))
    count = len(commands)
    worlds = [CALM] * count + [Conditions(push_speed=PUSH_SPEED)] * count
    return drive(config, policy, np.tile(commands, (2, 1)), seconds, seed, worlds)


def _figures(trajectory: Trajectory) -> dict[str, float]:
    mean = means(walking_rows(trajectory))
    names = ("velocity_error", "yaw_error", "falls", "power", "self_contacts")
    return {name: mean[name] for name in names} | {"falls": int((trajectory.falls > 0).sum())}
