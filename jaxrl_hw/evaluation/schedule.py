"""The commands of a film: which one the robot follows when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.evaluation.scoring import Command

DEMO: tuple[tuple[Command, float], ...] = (
    ((0.8, 0.0, 0.0), 0.25),
    ((0.4, 0.0, 0.8), 0.23),
    ((0.0, 0.3, 0.0), 0.19),
    ((-0.5, 0.0, 0.0), 0.19),
    ((0.0, 0.0, 0.0), 0.14),
)
"""The commands of a film by default, each with its share of the time."""


class Schedule(NamedTuple):
    """The command of each of T control steps."""

    commands: np.ndarray  # [T, 1, 3] float32, for `drive`
    texts: list[str]  # in words


def make_schedule(
    commands: Sequence[Command], trained: JoystickConfig, seconds: float, control_dt: float
) -> Schedule:
    """Commands one after the other.

    Args:
      commands: share the time equally; where there are none, those of `DEMO`, clipped to the
        ranges that the policy was trained for.
      trained: settings of the run.
      seconds, control_dt: the whole time and a control step, s.
    """
    if commands:
        shares = [1.0 / len(commands)] * len(commands)
    else:
        ranges = np.transpose([trained.vx, trained.vy, trained.yaw_rate])
        commands = np.clip([command for command, _ in DEMO], *ranges).tolist()
        shares = [share for _, share in DEMO]
    ends = np.round(np.cumsum(shares) * max(1, round(seconds / control_dt))).astype(int)
    steps = np.diff(ends, prepend=0)
    table = np.repeat(np.array(commands, np.float32), steps, axis=0)
    texts = np.repeat([describe(command) for command in commands], steps)
    return Schedule(table[:, None, :], texts.tolist())


def describe(command: Sequence[float]) -> str:
    """A command in words: "walk forward, turn left", or "stand"."""
    vx, vy, yaw_rate = command
    moves = []
    if abs(vx) >= 0.05:
        moves.append("forward" if vx > 0 else "backward")
    if abs(vy) >= 0.05:
        moves.append("left" if vy > 0 else "right")
    parts = [f"walk {' and '.join(moves)}"] if moves else []
    if abs(yaw_rate) >= 0.05:
        parts.append("turn left" if yaw_rate > 0 else "turn right")
    return ", ".join(parts) or "stand"
