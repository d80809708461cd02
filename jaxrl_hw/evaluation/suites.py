"""The robust suite: the same commands in harder worlds, all robots side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.config.schema import Config
from jaxrl_hw.evaluation.drive import Policy, drive
from jaxrl_hw.evaluation.scoring import commands_for, means, walking_rows
from jaxrl_hw.evaluation.trajectory import Trajectory
from jaxrl_hw.evaluation.worlds import CALM, Conditions

FRICTION = (0.4, 1.2)
TORSO_MASS = (-3.0, 3.0)  # kg
QUADRUPED_TORSO_MASS = (-1.0, 3.0)  # kg: 3 kg less is more than half of a small robot's trunk
DELAY_S = 0.02


class Case(NamedTuple):
    """One row of the suite."""

    name: str
    conditions: Conditions
    repeats: int  # robots per command


def robust_cases(legs: int) -> tuple[Case, ...]:
    """The suite for a robot with this number of legs."""
    mass = TORSO_MASS if legs < 4 else QUADRUPED_TORSO_MASS
    everything = Conditions(1.0, FRICTION, mass, DELAY_S)
    pushed = [Case(f"pushes {v} m/s", Conditions(push_speed=v), 3) for v in (0.5, 1.0, 1.5)]
    return (
        Case("no pushes", CALM, 1),
        *pushed,
        Case("friction 0.4 to 1.2", Conditions(friction=FRICTION), 3),
        Case(f"torso {mass[0]:+g} to {mass[1]:+g} kg", Conditions(torso_mass=mass), 3),
        Case("actions 0 to 20 ms late", Conditions(delay_s=DELAY_S), 3),
        Case("sensor noise", Conditions(noise=1.0), 3),
        Case("all four", everything, 3),
        Case("all four, pushes 1.0 m/s", everything._replace(push_speed=1.0), 3),
    )


def drive_suite(
    config: Config, policy: Policy, seconds: float = 10.0, seed: int = 0
) -> list[tuple[Case, Trajectory]]:
    """Drive a walking policy through every case; the arguments are those of `drive`."""
    robot = robot_spec(config)
    commands, cases = commands_for(robot), robust_cases(len(robot.feet))
    sizes = [case.repeats * len(commands) for case in cases]
    table = np.concatenate([np.tile(commands, (case.repeats, 1)) for case in cases])
    conditions = [case.conditions for case, n in zip(cases, sizes, strict=True) for _ in range(n)]
    trajectory = drive(config, policy, table, seconds, seed, conditions)
    ends = np.cumsum(sizes)
    return [
        (case, trajectory.of_robots(slice(end - n, end)))
        for case, n, end in zip(cases, sizes, ends, strict=True)
    ]


def case_row(case: Case, trajectory: Trajectory) -> dict[str, Any]:
    """A case's figures: name, velocity_error (m/s), yaw_error (rad/s), falls (robots that fell at
    least once), trials (robots), power (W), self_contacts (in 100 physics steps)."""
    mean = means(walking_rows(trajectory))
    return {
        "name": case.name,
        "velocity_error": mean["velocity_error"],
        "yaw_error": mean["yaw_error"],
        "falls": int((trajectory.falls > 0).sum()),
        "trials": len(trajectory.falls),
        "power": mean["power"],
        "self_contacts": mean["self_contacts"],
    }
