"""Measure a policy: how well it follows ten commands, how much power it takes, how often it falls.

Importing this module does not import jax: a command chooses the device first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jaxrl_hw.config.resolve import robot_spec, task_name
from jaxrl_hw.errors import UserError, check_between, unknown
from jaxrl_hw.evaluation import scoring
from jaxrl_hw.evaluation.trajectory import TrainedPolicy
from jaxrl_hw.loggers.jsonl import jsonable

STARTS = 16
"""Robots of a task without commands."""
SUITES = ("commands", "robust")


@dataclass(frozen=True)
class Evaluation:
    """Figures by command (or by start), and their mean."""

    robot: str
    task: str
    iteration: int
    seconds: float
    timestep: float
    """Of the physics it was measured on, s."""
    seed: int
    push: float
    """m/s, every 2.5 s; 0 for none."""
    rows: list[dict[str, Any]]
    """Per command: command, velocity_error (m/s), yaw_error (rad/s), falls, power (W),
    self_contacts (touching points of its own parts in 100 physics steps), and for the command to
    stand drift (m) and lift (m).
    Cartpole, per start: return, upright_share, upright_at_end (of the last tenth of the time).
    Any other task, per start: return, falls, and the task's own figures."""
    mean: dict[str, float]
    """Of every figure over the rows that have it."""
    cases: list[dict[str, Any]] = field(default_factory=list)
    """The robust suite, per case: name, velocity_error (m/s), yaw_error (rad/s), falls (robots that
    fell), trials (robots), power (W), self_contacts; of the joystick drive settle_s (s)."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return dict(jsonable(vars(self)))


def evaluate(
    run: TrainedPolicy,
    seconds: float = 10.0,
    seed: int = 0,
    push: float = 0.0,
    suite: str = "commands",
) -> Evaluation:
    """Drive a policy and measure it.

    Args:
      run: from `fit`, `load_run` or `open_trained`.
      seconds: simulated time per command; the first `SETTLE_S` do not count.
      seed: of gait phases, starts and pushes.
      push: m/s, size of a sudden change of velocity every 2.5 s in a random direction.
      suite: "commands", or "robust" for the harder worlds of `suites` as well.

    Raises:
      UserError: too few seconds, an unknown suite, or pushes or a suite for a task that has none.
    """
    from jaxrl_hw.evaluation.drive import drive
    from jaxrl_hw.evaluation.suites import case_row, drive_suite
    from jaxrl_hw.evaluation.worlds import Conditions

    robot, task = robot_spec(run.config), task_name(run.config)
    walks = task == "joystick"
    check_between("--seconds", seconds, scoring.SETTLE_S + 1.0 if walks else 1.0, 600.0)
    check_between("--push", push, 0.0, 5.0)
    if suite not in SUITES:
        raise unknown("suite", suite, SUITES)
    if (push or suite == "robust") and not walks:
        flag = "--push" if push else "--suite robust"
        raise UserError(f"{flag} is for robots that walk, not for the {task} task")
    if push and suite == "robust":
        raise UserError(f"--suite robust has its own pushes: leave out --push {push:g}")
    cases: list[dict[str, Any]] = []
    if suite == "robust":
        driven = drive_suite(run.config, run.policy, seconds, seed)
        cases = [case_row(*case, robot.gait_period) for case in driven]
        trajectory = driven[0][1]
    else:
        commands = scoring.commands_for(robot) if walks else ((0.0, 0.0, 0.0),) * STARTS
        world = Conditions(push_speed=push)
        trajectory = drive(run.config, run.policy, commands, seconds, seed, world)
    score = {"joystick": scoring.walking_rows, "cartpole": scoring.balancing_rows}
    rows = score.get(task, scoring.diagnostic_rows)(trajectory)
    mean, timestep = scoring.means(rows), trajectory.timestep
    return Evaluation(
        robot.name, task, run.iteration, seconds, timestep, seed, push, rows, mean, cases
    )
