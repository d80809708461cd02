"""Figures of a trajectory: how well commands were followed, at what cost, how many falls."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl_hw.envs.robots.spec import RobotSpec
from jaxrl_hw.evaluation.trajectory import Trajectory

Command = tuple[float, float, float]
"""Forward and leftward velocity, m/s, and yaw rate, rad/s, in the base frame."""


def _ten_commands(back: float, side: float, turn: float) -> tuple[Command, ...]:
    straight = ((0.5, 0.0, 0.0), (1.0, 0.0, 0.0), (-back, 0.0, 0.0), (0.0, side, 0.0))
    turning = ((0.0, -side, 0.0), (0.0, 0.0, turn), (0.0, 0.0, -turn))
    return (*straight, *turning, (0.5, 0.2, 0.4), (0.8, 0.0, -0.5), (0.0, 0.0, 0.0))


COMMANDS = _ten_commands(back=0.5, side=0.3, turn=0.8)
QUADRUPED_COMMANDS = _ten_commands(back=1.0, side=0.5, turn=1.0)
SETTLE_S = 2.0
"""Seconds from the start that errors and power leave out."""


def commands_for(robot: RobotSpec) -> tuple[Command, ...]:
    """The ten commands that a robot is measured with."""
    return QUADRUPED_COMMANDS if len(robot.feet) == 4 else COMMANDS


def walking_rows(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Per robot: errors in the base frame and power, as means over the time after `SETTLE_S`.

    velocity_error is the mean length of (v_xy - commanded v_xy), yaw_error the mean |yaw rate -
    commanded yaw rate|. self_contacts is the number of points at which parts of the robot touch
    each other, summed over 100 physics steps. Falls count from the start; a robot that fell
    continues from standing. Where the command is to stand: drift is the largest horizontal distance
    from the start, m, and lift the largest height of a foot after `SETTLE_S`, m.
    """
    after = round(SETTLE_S / trajectory.control_dt)
    commands = trajectory.commands
    off = trajectory.velocity[after:, :, :2] - commands[after:, :, :2]
    rows = _rows(
        {
            "velocity_error": np.linalg.norm(off, axis=-1).mean(axis=0),
            "yaw_error": np.abs(trajectory.yaw_rate - commands[..., 2])[after:].mean(axis=0),
            "falls": trajectory.falls,
            "power": trajectory.power[after:].mean(axis=0),
            "self_contacts": 100 * trajectory.self_contacts[after:].mean(axis=0),
        }
    )
    for i in np.flatnonzero(~commands.any(axis=(0, 2))):
        height = trajectory.steps.diagnostics["foot_clearance"][after:, i]
        rows[i]["drift"] = float(np.linalg.norm(trajectory.qpos[:, i, :2], axis=-1).max())
        rows[i]["lift"] = float(np.max(height))
    asked = np.round(commands[0].astype(float), 6).tolist()
    return [{"command": command, **row} for command, row in zip(asked, rows, strict=True)]


def balancing_rows(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Per start of the cartpole: return, and the share of time that the pole was upright."""
    upright = np.asarray(trajectory.steps.diagnostics["upright_share"])
    columns = {
        "return": np.asarray(trajectory.steps.reward).sum(axis=0),
        "upright_share": upright.mean(axis=0),
        "upright_at_end": upright[-max(1, len(upright) // 10) :].mean(axis=0),
    }
    return _rows(columns)


def diagnostic_rows(trajectory: Trajectory) -> list[dict[str, Any]]:
    """Per start of any other task: return, falls, and the means of the task's own figures."""
    columns = {"return": np.asarray(trajectory.steps.reward).sum(axis=0), "falls": trajectory.falls}
    columns |= {k: np.mean(v, axis=0) for k, v in trajectory.steps.diagnostics.items()}
    return _rows(columns)


def _rows(columns: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    return [
        dict(zip(columns, (x.item() for x in row), strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """The mean of every figure over the rows that have it."""
    names = dict.fromkeys(name for row in rows for name in row if name != "command")
    columns = {name: [row[name] for row in rows if name in row] for name in names}
    return {name: float(sum(values) / len(values)) for name, values in columns.items()}
