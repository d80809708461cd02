"""From a run to a film: drive, draw every picture, write on it what was asked and what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxrl_hw.envs.robots import RobotSpec, get_robot
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.evaluation.overlay import Caption, Dial, Motion, Row, draw
from jaxrl_hw.evaluation.recording import Recording
from jaxrl_hw.evaluation.schedule import Command, Leg, command_table, make_schedule
from jaxrl_hw.evaluation.trained import Trained
from jaxrl_hw.evaluation.video import Film, write_film

PICTURES_PER_S = 25.0
ALARM_S = 1.5
"""How long a fall is told in words."""


class Filmed(NamedTuple):
    """What a film holds."""

    frames: int
    falls: int


def film_run(
    run: Trained,
    path: Path,
    seconds: float = 12.0,
    commands: Sequence[Command] = (),
    seed: int = 0,
    size: tuple[int, int] = (960, 540),
    backend: str = "egl",
    drawn: Callable[[int, int], None] = lambda count, total: None,
) -> Filmed:
    """Drive a run's policy and write the film of it.

    Args:
      run: from `fit`, `load_run` or `open_trained`.
      path: .mp4 or .gif, in a folder that exists.
      seconds: length.
      commands: share the time; none for `schedule.SHOW`.
      seed: of the start.
      size: width and height, pixels.
      backend: from `opengl.choose_backend`.
      drawn: told how many pictures are drawn, of how many.

    Raises:
      RunError: drawing or writing fails.
    """
    robot = get_robot(run.config.robot)
    legs = make_schedule(commands, run.config.joystick, seconds, robot.control_dt)
    seen = drive(run.config, run.policy, command_table(legs), seconds, seed)
    stride = max(1, round(1.0 / (PICTURES_PER_S * seen.control_dt)))
    steps = range(stride - 1, len(seen.qpos), stride)
    fps = 1.0 / (stride * seen.control_dt)
    model = robot.load(seen.timestep)
    with Film(model, size, backend) as film:
        pictures = _pictures(film, run, robot, legs, seen, steps)
        write_film(path, pictures, size, fps, lambda count: drawn(count, len(steps)))
    return Filmed(len(steps), int(seen.falls[0]))


def _pictures(
    film: Film, run: Trained, robot: RobotSpec, legs: list[Leg], seen: Recording, steps: range
) -> Iterator[np.ndarray]:
    writer: _Walking | _Balancing
    writer = _Walking(robot, legs, seen) if seen.task == "joystick" else _Balancing(seen)
    fallen = np.cumsum(seen.fell[:, 0])
    last_fall = -np.inf
    for step in steps:
        since = seen.fell[: step + 1, 0]
        if since.any():
            last_fall = np.flatnonzero(since)[-1]
        recent = (step - last_fall) * seen.control_dt < ALARM_S
        caption = Caption(
            title=robot.name,
            subtitle=f"iteration {run.iteration:,}",
            headline=writer.headline(step),
            rows=writer.rows(step),
            clock=f"{(step + 1) * seen.control_dt:.1f} s",
            falls=int(fallen[step]) if seen.task == "joystick" else None,
            dial=writer.dial(step),
            alarm="fell: starts again" if recent else "",
        )
        yield draw(film.frame(seen.qpos[step, 0]), caption)


class _Walking:
    """Figures of a robot under command; as measured they are means over the last gait cycle."""

    def __init__(self, robot: RobotSpec, legs: list[Leg], seen: Recording) -> None:
        self.seen = seen
        self.words = [leg.words for leg in legs for _ in range(leg.steps)]
        window = max(1, round(robot.gait_period / seen.control_dt))
        measured = np.concatenate([seen.velocity[:, 0, :2], seen.yaw_rate[:, :1]], axis=1)
        self.full = max(0.1, float(np.linalg.norm(seen.commands[:, 0, :2], axis=1).max()))
        self.measured = recent_mean(measured, seen.fell[:, 0], window)

    def headline(self, step: int) -> str:
        return self.words[step]

    def rows(self, step: int) -> tuple[Row, ...]:
        names = (("forward", "m/s"), ("sideways", "m/s"), ("turn", "rad/s"))
        told, did = self.seen.commands[step, 0], self.measured[step]
        return tuple(
            Row(name, float(told[i]), float(did[i]), unit) for i, (name, unit) in enumerate(names)
        )

    def dial(self, step: int) -> Dial:
        """Commanded and actual motion as seen from above."""
        vx, vy, yaw_rate = self.seen.commands[step, 0]
        return Dial(Motion(vx, vy, yaw_rate), Motion(*self.measured[step]), self.full)


class _Balancing:
    """Figures of the cartpole."""

    def __init__(self, seen: Recording) -> None:
        self.seen = seen
        upright = np.asarray(seen.moments.diagnostics["upright_share"])[:, 0]
        self.share = np.cumsum(upright) / np.arange(1, len(upright) + 1)

    def headline(self, step: int) -> str:
        return "swing up and balance"

    def rows(self, step: int) -> tuple[Row, ...]:
        cart, angle = self.seen.qpos[step, 0]
        tilt = abs(np.degrees((angle + np.pi) % (2 * np.pi) - np.pi))
        return (
            Row("pole tilt", None, float(tilt), "deg"),
            Row("cart", None, float(cart), "m"),
            Row("time upright", None, float(100 * self.share[step]), "%"),
        )

    def dial(self, step: int) -> None:
        return None  # there is no motion over ground to show


def recent_mean(values: np.ndarray, restart: np.ndarray, window: int) -> np.ndarray:
    """Running means [T, D] over the last `window` steps, none from before a restart.

    Args:
      values: [T, D].
      restart: [T] bool: what was before this step is of another episode.
      window: steps, at least 1; fewer at the start.
    """
    means, start = np.empty(values.shape), 0
    for step in range(len(values)):
        if restart[step]:
            start = step
        means[step] = values[max(start, step + 1 - window) : step + 1].mean(axis=0)
    return means
