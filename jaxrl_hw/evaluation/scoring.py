"""Figures of a recording: how well commands were followed, at what cost, how often it fell."""

from __future__ import annotations

from typing import Any

import numpy as np

from jaxrl_hw.envs.robots.spec import RobotSpec
from jaxrl_hw.evaluation.recording import Recording

COMMANDS = (
    (0.5, 0.0, 0.0),
    (1.0, 0.0, 0.0),
    (-0.5, 0.0, 0.0),
    (0.0, 0.3, 0.0),
    (0.0, -0.3, 0.0),
    (0.0, 0.0, 0.8),
    (0.0, 0.0, -0.8),
    (0.5, 0.2, 0.4),
    (0.8, 0.0, -0.5),
    (0.0, 0.0, 0.0),
)
"""Forward and leftward velocity, m/s, and yaw rate, rad/s, in the base frame: for two legs."""
QUADRUPED_COMMANDS = (
    (0.5, 0.0, 0.0),
    (1.0, 0.0, 0.0),
    (-1.0, 0.0, 0.0),
    (0.0, 0.5, 0.0),
    (0.0, -0.5, 0.0),
    (0.0, 0.0, 1.0),
    (0.0, 0.0, -1.0),
    (0.5, 0.2, 0.4),
    (0.8, 0.0, -0.5),
    (0.0, 0.0, 0.0),
)
SETTLE_S = 2.0
"""Seconds from the start that errors and power leave out."""


def commands_for(robot: RobotSpec) -> tuple[tuple[float, float, float], ...]:
    """The ten commands a robot is measured with."""
    return QUADRUPED_COMMANDS if len(robot.feet) == 4 else COMMANDS


def walking_rows(seen: Recording) -> list[dict[str, Any]]:
    """Per robot: errors in the base frame and power, as means over time after `SETTLE_S`.

    velocity_error is the mean length of (v_xy - commanded v_xy), yaw_error the mean |yaw rate -
    commanded yaw rate|. Falls count from the very start; a robot that fell goes on from standing.
    Where the command is to stand: drift is the largest horizontal distance from the start, m, and
    lift how high a foot came after `SETTLE_S`, m.
    """
    after = round(SETTLE_S / seen.control_dt)
    off = seen.velocity[after:, :, :2] - seen.commands[after:, :, :2]
    velocity_error = np.linalg.norm(off, axis=-1).mean(axis=0)
    yaw_error = np.abs(seen.yaw_rate[after:] - seen.commands[after:, :, 2]).mean(axis=0)
    power = seen.power[after:].mean(axis=0)
    rows = []
    for i in range(seen.commands.shape[1]):
        row = {
            "command": [round(float(x), 6) for x in seen.commands[0, i]],
            "velocity_error": float(velocity_error[i]),
            "yaw_error": float(yaw_error[i]),
            "falls": int(seen.falls[i]),
            "power": float(power[i]),
        }
        if not seen.commands[:, i].any():
            row |= {
                "drift": float(np.linalg.norm(seen.qpos[:, i, :2], axis=-1).max()),
                "lift": float(np.max(seen.moments.diagnostics["foot_clearance"][after:, i])),
            }
        rows.append(row)
    return rows


def balancing_rows(seen: Recording) -> list[dict[str, Any]]:
    """Per start of the cartpole: return, and the share of time the pole was upright."""
    upright = np.asarray(seen.moments.diagnostics["upright_share"])
    last = max(1, len(upright) // 10)
    returns = np.asarray(seen.moments.reward).sum(axis=0)
    return [
        {
            "return": float(returns[i]),
            "upright_share": float(upright[:, i].mean()),
            "upright_at_end": float(upright[-last:, i].mean()),
        }
        for i in range(upright.shape[1])
    ]


def means(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Of every figure over all rows; a figure that only some rows have, over those."""
    names = dict.fromkeys(name for row in rows for name in row if name != "command")
    columns = {name: [row[name] for row in rows if name in row] for name in names}
    return {name: float(sum(values) / len(values)) for name, values in columns.items()}
