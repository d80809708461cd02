"""The film of a policy: drive it, render every frame, and write the figures on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrl_hw.config.factory import shown_model
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.envs.robots import RobotSpec
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.evaluation.overlay import Caption, Dial, Row, draw
from jaxrl_hw.evaluation.schedule import make_schedule
from jaxrl_hw.evaluation.scoring import Command
from jaxrl_hw.evaluation.trajectory import TrainedPolicy, Trajectory
from jaxrl_hw.evaluation.video import Renderer, write_film
from jaxrl_hw.evaluation.worlds import Conditions

FRAMES_PER_S = 25.0
FALL_SHOWN_S = 1.5
"""For this long after a fall the panel has a red line."""


class Figures(NamedTuple):
    """What a film shows of a trajectory of T control steps."""

    headlines: Sequence[str]  # T
    rows: Sequence[tuple[str, np.ndarray | None, np.ndarray, str]]
    """Each its name, as commanded (where it is) and as measured [T], unit."""
    dials: Sequence[Dial] = ()  # T, or none


class Filmed(NamedTuple):
    """What a film holds."""

    frames: int
    falls: int


class Take(NamedTuple):
    """An episode of one robot to be filmed."""

    trajectory: Trajectory
    texts: list[str]  # T: the command in words

    @property
    def frames(self) -> range:
        """The control steps of which a frame is drawn."""
        stride = max(1, round(1.0 / (FRAMES_PER_S * self.trajectory.control_dt)))
        return range(stride - 1, len(self.trajectory.qpos), stride)

    @property
    def frame_s(self) -> float:
        """Time between two frames, s."""
        return self.frames.step * self.trajectory.control_dt


def drive_take(
    run: TrainedPolicy,
    seconds: float = 12.0,
    commands: Sequence[Command] = (),
    seed: int = 0,
    push: float = 0.0,
) -> Take:
    """Drive one robot for a film; `commands` share the time, none for `schedule.DEMO`.

    push: m/s, size of a sudden change of velocity every 2.5 s in a random direction.
    """
    robot = robot_spec(run.config)
    schedule = make_schedule(commands, run.config.joystick, seconds, robot.control_dt)
    world = Conditions(push_speed=push)
    driven = drive(run.config, run.policy, schedule.commands, seconds, seed, world)
    return Take(driven, schedule.texts)


def film_take(
    run: TrainedPolicy,
    take: Take,
    path: Path,
    size: tuple[int, int] = (960, 540),
    backend: str = "egl",
    on_frame: Callable[[int, int], None] = lambda count, total: None,
) -> Filmed:
    """Write the film of an episode.

    Args:
      path: .mp4 or .gif, in a folder that exists.
      size: width and height, pixels.
      backend: from `opengl.choose_backend`.
      on_frame: called after each frame with the number of frames so far and in all.

    Raises:
      RunError: drawing or writing fails.
    """
    robot, trajectory, steps = robot_spec(run.config), take.trajectory, take.frames
    caption, fps = _captions(run, robot, take.texts, trajectory), 1.0 / take.frame_s
    with Renderer(shown_model(run.config, trajectory.timestep), size, backend) as renderer:
        frames = (draw(renderer.frame(trajectory.qpos[i, 0]), caption(i)) for i in steps)
        write_film(path, frames, size, fps, lambda count: on_frame(count, len(steps)))
    return Filmed(len(steps), int(trajectory.falls[0]))


def _captions(
    run: TrainedPolicy, robot: RobotSpec, texts: list[str], trajectory: Trajectory
) -> Callable[[int], Caption]:
    """What is written on the frame of each control step."""
    if trajectory.task == "joystick":
        figures = _walking(robot, texts, trajectory)
    else:
        figures = (_balancing if trajectory.task == "cartpole" else _diagnostics)(trajectory)
    fell = trajectory.fell[:, 0]
    total = np.cumsum(fell)
    last = np.maximum.accumulate(np.where(fell, np.arange(len(fell)), -np.inf))

    def caption(step: int) -> Caption:
        rows = tuple(
            Row(name, None if asked is None else float(asked[step]), float(did[step]), unit)
            for name, asked, did, unit in figures.rows
        )
        recent = (step - last[step]) * trajectory.control_dt < FALL_SHOWN_S
        return Caption(
            title=robot.name,
            subtitle=f"iteration {run.iteration:,}",
            headline=figures.headlines[step],
            rows=rows,
            clock=f"{(step + 1) * trajectory.control_dt:.1f} s",
            falls=None if trajectory.task == "cartpole" else int(total[step]),
            dial=figures.dials[step] if figures.dials else None,
            alarm="fell: starts again" if recent else "",
        )

    return caption


def _walking(robot: RobotSpec, texts: list[str], trajectory: Trajectory) -> Figures:
    """A robot under command: measured figures are means over the last gait cycle."""
    commands = trajectory.commands[:, 0]
    window = max(1, round(robot.gait_period / trajectory.control_dt))
    moved = np.concatenate([trajectory.velocity[:, 0, :2], trajectory.yaw_rate[:, :1]], axis=1)
    measured = recent_mean(moved, trajectory.fell[:, 0], window)
    rim = max(0.1, float(np.linalg.norm(commands[:, :2], axis=1).max()))
    names = (("forward", "m/s"), ("sideways", "m/s"), ("turn", "rad/s"))
    rows = [(name, commands[:, i], measured[:, i], unit) for i, (name, unit) in enumerate(names)]
    motions = zip(commands.tolist(), measured.tolist(), strict=True)
    return Figures(texts, rows, [Dial(tuple(asked), tuple(did), rim) for asked, did in motions])


def _balancing(trajectory: Trajectory) -> Figures:
    """The cartpole."""
    upright = np.asarray(trajectory.steps.diagnostics["upright_share"])[:, 0]
    share = np.cumsum(upright) / np.arange(1, len(upright) + 1)
    cart, angle = trajectory.qpos[:, 0].T
    tilt = np.abs(np.degrees((angle + np.pi) % (2 * np.pi) - np.pi))
    columns = [("pole tilt", tilt, "deg"), ("cart", cart, "m"), ("time upright", 100 * share, "%")]
    rows = [(name, None, values, unit) for name, values, unit in columns]
    return Figures(["swing up and balance"] * len(share), rows)


def _diagnostics(trajectory: Trajectory) -> Figures:
    """Any other task: its own figures as they are."""
    found = trajectory.steps.diagnostics
    rows = [(name, None, np.asarray(values)[:, 0], "") for name, values in found.items()]
    return Figures([trajectory.task] * len(trajectory.qpos), rows)


def recent_mean(values: np.ndarray, restart: np.ndarray, window: int) -> np.ndarray:
    """Running means of values [T, D] over the last `window` steps, none from before a restart.

    restart: [T] bool: a new episode begins with this step.
    """
    means, start = np.empty(values.shape), 0
    for step in range(len(values)):
        if restart[step]:
            start = step
        means[step] = values[max(start, step + 1 - window) : step + 1].mean(axis=0)
    return means
