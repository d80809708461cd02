"""The robust suite: harder worlds, robots and commands, all robots side by side."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.config.schema import Config
from jaxrl_hw.evaluation.courses import Course, commands_of, settle_s
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.evaluation.scoring import commands_for, means, walking_rows
from jaxrl_hw.evaluation.trajectory import Trajectory
from jaxrl_hw.evaluation.worlds import CALM, Conditions

FRICTION = (0.4, 1.2)
TORSO_MASS = (-3.0, 3.0)  # kg
QUADRUPED_TORSO_MASS = (-1.0, 3.0)  # kg: 3 kg less is more than half of a small robot's trunk
DELAY_S = 0.02
"""Of actions and sensors; no longer than a control step."""


class Case(NamedTuple):
    """One row of the suite."""

    name: str
    conditions: Conditions
    repeats: int  # robots per command
    course: Course = "held"
    other: bool = False  # on the robot's other model


def robust_cases(legs: int, other: bool = False, delay_s: float = DELAY_S) -> tuple[Case, ...]:
    """The suite for a robot with this number of legs.

    other: whether there is another model of it.
    delay_s: the longest delay.
    """
    mass = TORSO_MASS if legs < 4 else QUADRUPED_TORSO_MASS
    everything = Conditions(1.0, FRICTION, mass, delay_s)
    late = f"0 to {1e3 * delay_s:g} ms late"
    pushed = [Case(f"pushes {v} m/s", Conditions(push_speed=v), 3) for v in (0.5, 1.0, 1.5)]
    return (
        Case("no pushes", CALM, 1),
        *pushed,
        Case("friction 0.4 to 1.2", Conditions(friction=FRICTION), 3),
        Case(f"torso {mass[0]:+g} to {mass[1]:+g} kg", Conditions(torso_mass=mass), 3),
        Case(f"actions {late}", Conditions(delay_s=delay_s), 3),
        Case("sensor noise", Conditions(noise=1.0), 3),
        Case("all four", everything, 3),
        Case("all four, pushes 1.0 m/s", everything._replace(push_speed=1.0), 3),
        Case("gains -10 to +10 %", Conditions(gains=(0.9, 1.1)), 2),
        Case("joint losses x 0.5 to 2", Conditions(joint_losses=(0.5, 2.0)), 2),
        Case("joint zeros +-0.02 rad", Conditions(joint_offset=0.02), 2),
        Case("IMU +-1 deg, +-0.05 rad/s", Conditions(imu_tilt=0.0175, gyro_bias=0.05), 2),
        Case(f"sensors {late}", Conditions(observation_delay_s=delay_s), 2),
        Case("torso centre +-5 cm", Conditions(torso_offset=0.05), 2),
        Case("random commands", CALM, 2, "random"),
        Case("joystick drive", CALM, 1, "drive"),
        *([Case("another model", CALM, 1, other=True)] if other else []),
    )


def drive_suite(
    config: Config, policy: Any, seconds: float = 10.0, seed: int = 0
) -> list[tuple[Case, Trajectory]]:
    """Drive a walking policy through every case; the arguments are those of `drive`."""
    robot = robot_spec(config)
    ten, dt = commands_for(robot), robot.control_dt
    cases = robust_cases(len(robot.feet), robot.other_mjcf is not None, min(DELAY_S, dt))
    found: dict[str, Trajectory] = {}
    for other in (False, True):
        here = [case for case in cases if case.other == other]
        if not here:
            continue
        steps = max(1, round(seconds / dt))
        tables = [commands_of(case.course, ten, case.repeats, steps, dt) for case in here]
        sizes = [table.shape[1] for table in tables]
        worlds = [case.conditions for case, n in zip(here, sizes, strict=True) for _ in range(n)]
        commands = np.concatenate(tables, axis=1)
        trajectory = drive(config, policy, commands, seconds, seed, worlds, other=other)
        ends = np.cumsum(sizes)
        for case, n, end in zip(here, sizes, ends, strict=True):
            found[case.name] = trajectory.of_robots(slice(end - n, end))
    return [(case, found[case.name]) for case in cases]


def case_row(case: Case, trajectory: Trajectory, gait_period: float) -> dict[str, Any]:
    """A case's figures: name, velocity_error (m/s), yaw_error (rad/s), falls (robots that fell at
    least once), trials (robots), power (W), self_contacts (in 100 physics steps), and of a drive
    settle_s (s, see `courses.settle_s`).

    gait_period: of the robot, s.
    """
    mean = means(walking_rows(trajectory))
    row = {
        "name": case.name,
        "velocity_error": mean["velocity_error"],
        "yaw_error": mean["yaw_error"],
        "falls": int((trajectory.falls > 0).sum()),
        "trials": len(trajectory.falls),
        "power": mean["power"],
        "self_contacts": mean["self_contacts"],
    }
    return row | ({"settle_s": settle_s(trajectory, gait_period)} if case.course == "drive" else {})
