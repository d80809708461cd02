"""The commands of a film: which one the robot follows when."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig

Command = tuple[float, float, float]
"""Forward and leftward velocity, m/s, and yaw rate, rad/s, in the base frame."""

DEMO: tuple[tuple[Command, float], ...] = (
    ((0.8, 0.0, 0.0), 0.25),
    ((0.4, 0.0, 0.8), 0.23),
    ((0.0, 0.3, 0.0), 0.19),
    ((-0.5, 0.0, 0.0), 0.19),
    ((0.0, 0.0, 0.0), 0.14),
)
"""The commands of a film by default, each with its share of the time."""


class Segment(NamedTuple):
    """A command that is held for a while."""

    command: Command
    steps: int  # control steps


def make_schedule(
    commands: Sequence[Command], trained: JoystickConfig, seconds: float, control_dt: float
) -> list[Segment]:
    """Commands one after the other.

    Args:
      commands: share the time equally; where there are none, those of `DEMO`, clipped to the
        ranges that the policy was trained for.
      trained: settings of the run.
      seconds, control_dt: the whole time and a control step, s.
    """
    shares = [(command, 1.0 / len(commands)) for command in commands]
    shares = shares or [(_clipped(command, trained), share) for command, share in DEMO]
    total = max(1, round(seconds / control_dt))
    ends = np.round(np.cumsum([share for _, share in shares]) * total).astype(int)
    lengths = np.diff(ends, prepend=0)
    return [
        Segment(command, int(steps))
        for (command, _), steps in zip(shares, lengths, strict=True)
        if steps
    ]


def command_table(segments: Sequence[Segment]) -> np.ndarray:
    """[T, 1, 3] float32, for `drive`."""
    rows = [np.tile(np.array(command, np.float32), (steps, 1)) for command, steps in segments]
    return np.concatenate(rows)[:, None, :]


def descriptions(segments: Sequence[Segment]) -> list[str]:
    """The command of each of the T control steps in words."""
    return [text for s in segments for text in [describe(s.command)] * s.steps]


def describe(command: Command) -> str:
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


def _clipped(command: Command, trained: JoystickConfig) -> Command:
    ranges = (trained.vx, trained.vy, trained.yaw_rate)
    vx, vy, yaw = (float(np.clip(x, *r)) for x, r in zip(command, ranges, strict=True))
    return vx, vy, yaw
