"""The commands of the robust suite's rows: held ones, random ones, a drive by joystick."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from jaxrl_hw.evaluation.scoring import SETTLE_S, Command
from jaxrl_hw.evaluation.trajectory import Trajectory

Course = Literal["held", "random", "drive"]
RANDOM_SEED = 7
DRIVES = ((0, 3, 2, 9), (1, 7, 4, 9), (7, 1, 9, 2), (2, 8, 0, 4))
"""Commands of four drives, as places among the ten."""
NEAR = 0.15
"""m/s: a robot this near to its command has settled."""


class Times(NamedTuple):
    """Control steps of a drive."""

    changes: list[int]  # where commands begin to change
    ends: list[int]  # where the next one does, or the drive ends


def commands_of(
    course: Course, ten: tuple[Command, ...], repeats: int, steps: int, control_dt: float
) -> np.ndarray:
    """Commands [steps, robots, 3] of a course; `repeats` robots for each of the ten commands.

    A drive has eight robots, whatever the repeats: every drive of `DRIVES` twice. They stand for
    `SETTLE_S`, or for half of the time where that is shorter; four commands share the rest. One
    robot's commands come as a step, as a ramp over half of its time, as a step, as a ramp; the
    other's as a ramp first.
    """
    if course == "held":
        return np.broadcast_to(np.tile(ten, (repeats, 1)), (steps, repeats * len(ten), 3))
    if course == "random":
        low, high = np.min(ten, axis=0), np.max(ten, axis=0)
        drawn = np.random.default_rng(RANDOM_SEED).uniform(low, high, (repeats * len(ten), 3))
        return np.broadcast_to(drawn, (steps, *drawn.shape))
    robots = [_drive(ten, drive, ramp, steps, control_dt) for drive in DRIVES for ramp in (0, 1)]
    return np.stack(robots, axis=1)


def drive_times(steps: int, control_dt: float) -> Times:
    """When a drive of so many control steps changes its commands."""
    first = min(round(SETTLE_S / control_dt), steps // 2)
    edges = np.round(np.linspace(first, steps, 5)).astype(int).tolist()
    return Times(edges[:-1], edges[1:])


def _drive(
    ten: tuple[Command, ...], drive: tuple[int, ...], ramp: int, steps: int, control_dt: float
) -> np.ndarray:
    table = np.zeros((steps, 3))
    before = np.zeros(3)
    for i, (start, end) in enumerate(zip(*drive_times(steps, control_dt), strict=True)):
        after = np.array(ten[drive[i]])
        over = max(1, (end - start) // 2) if (i + ramp) % 2 else 1
        part = np.minimum(np.arange(1, end - start + 1) / over, 1.0)[:, None]
        table[start:end] = before + part * (after - before)
        before = after
    return table


def settle_s(trajectory: Trajectory, gait_period: float) -> float:
    """Mean time from a drive's change of command until a robot has settled, s.

    It has settled when the horizontal velocity, less the commanded one, stays shorter than `NEAR`
    to the next change, both as means over the gait cycle before: within a cycle a walking base
    sways. One that does not settle counts with all of the time that it had.
    """
    dt, times = trajectory.control_dt, drive_times(len(trajectory.commands), trajectory.control_dt)
    off = trajectory.velocity[..., :2] - trajectory.commands[..., :2]
    cycle = max(1, round(gait_period / dt))
    total = np.cumsum(np.concatenate([np.zeros((cycle, *off.shape[1:])), off]), axis=0)
    far = np.linalg.norm(total[cycle:] - total[:-cycle], axis=-1) / cycle >= NEAR
    late = [
        np.where(far[a:b], np.arange(1, b - a + 1)[:, None], 0).max(axis=0)
        for a, b in zip(*times, strict=True)
    ]
    return float(np.mean(late) * dt)
