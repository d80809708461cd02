"""A film's schedule: which command a robot follows when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig

Command = tuple[float, float, float]
"""Forward and leftward velocity, m/s, and yaw rate, rad/s, in the base frame."""

SHOW: tuple[tuple[Command, float], ...] = (
    ((0.8, 0.0, 0.0), 0.25),
    ((0.4, 0.0, 0.8), 0.23),
    ((0.0, 0.3, 0.0), 0.19),
    ((-0.5, 0.0, 0.0), 0.19),
    ((0.0, 0.0, 0.0), 0.14),
)
"""What a robot shows when nothing else is asked: commands, and their shares of the time."""


class Leg(NamedTuple):
    """One part of a schedule."""

    command: Command
    steps: int  # control steps

    @property
    def words(self) -> str:
        """The command in words."""
        return describe(self.command)


def make_schedule(
    commands: Sequence[Command], trained: JoystickConfig, seconds: float, control_dt: float
) -> list[Leg]:
    """Commands one after the other.

    Args:
      commands: share the time equally; where there are none, `SHOW` is followed, cut to the
        ranges that the policy was trained for.
      trained: of the run.
      seconds, control_dt: the whole time and a control step, s.
    """
    if commands:
        shares = [(command, 1.0 / len(commands)) for command in commands]
    else:
        shares = [(_within(command, trained), share) for command, share in SHOW]
    total = max(1, round(seconds / control_dt))
    ends = np.round(np.cumsum([share for _, share in shares]) * total).astype(int)
    starts = np.concatenate([[0], ends[:-1]])
    return [
        Leg(command, int(end - start))
        for (command, _), start, end in zip(shares, starts, ends, strict=True)
        if end > start
    ]


def command_table(legs: Sequence[Leg]) -> np.ndarray:
    """[T, 1, 3] float32, for `drive`."""
    rows = [np.tile(np.array(leg.command, np.float32), (leg.steps, 1)) for leg in legs]
    return np.concatenate(rows)[:, None, :]


def describe(command: Command) -> str:
    """A command in words: "walk forward, turn left", or "stand"."""
    vx, vy, yaw_rate = command
    moves = []
    if abs(vx) >= 0.05:
        moves.append("forward" if vx > 0 else "backward")
    if abs(vy) >= 0.05:
        moves.append("left" if vy > 0 else "right")
    words = [f"walk {' and '.join(moves)}"] if moves else []
    if abs(yaw_rate) >= 0.05:
        words.append("turn left" if yaw_rate > 0 else "turn right")
    return ", ".join(words) or "stand"


def _within(command: Command, trained: JoystickConfig) -> Command:
    ranges = (trained.vx, trained.vy, trained.yaw_rate)
    vx, vy, yaw = (float(np.clip(x, *r)) for x, r in zip(command, ranges, strict=True))
    return vx, vy, yaw
