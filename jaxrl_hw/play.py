"""Watch a trained policy: python -m jaxrl_hw.play --run-dir runs/g1-joystick-ppo-0

Or one without its run: --policy zoo:g1, --policy policy.npz.

Writes a film (.mp4 or .gif), drawn without a screen; with --viewer it opens MuJoCo's window. The
robot follows a schedule of commands, "vx vy yaw-rate" in m/s, m/s and rad/s, one after the other:
--command "0.5 0 0" --command "0 0 0.8". Falls are shown and counted; the robot starts again.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from jaxrl_hw.cli.arguments import (
    OneLineParser,
    add_run_arguments,
    check_between,
    check_source,
    number,
    whole_number,
)
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.trained_policy import open_trained
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.evaluation.opengl import choose_backend
from jaxrl_hw.evaluation.trained import Trained
from jaxrl_hw.loggers import formats

ENDINGS = (".mp4", ".gif")
SAY_EVERY_S = 10.0


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: drawn or shown; 2: bad input; 1: nothing here can draw, or the disk is full."""

    def body() -> int:
        asked = _parse(sys.argv[1:] if argv is None else argv)
        if asked.viewer:
            return _show(asked)
        return _film(asked)

    return run_command(body)


def _film(asked: Namespace) -> int:
    began = time.monotonic()
    out = _output(asked)
    backend = choose_backend()
    _say(f"loading {check_source(asked)}, drawing with {backend.upper()}")
    run = open_trained(asked)
    from jaxrl_hw.evaluation.film import film_run

    path = out or run.film
    _make_folder(path.parent)
    _check_commands(run, asked.command)
    size = (asked.width, asked.height)
    progress = _Progress()
    film = film_run(
        run, path, asked.seconds, asked.command, asked.seed, size, backend, progress.drawn
    )
    falls = f"{film.falls} fall{'' if film.falls == 1 else 's'}"
    _say(
        f"{path}: {formats.size(path.stat().st_size)}, {film.frames} pictures of "
        f"{size[0]} x {size[1]}, iteration {run.iteration:,}, {falls}, "
        f"took {formats.duration(time.monotonic() - began)}"
    )
    return DONE


def _show(asked: Namespace) -> int:
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not screen:
        raise RunError(
            "--viewer needs a display, and there is none (DISPLAY is not set); "
            "leave --viewer out to write a film"
        )
    run = open_trained(asked)
    from jaxrl_hw.evaluation.viewer import view_run

    _check_commands(run, asked.command)
    _say(f"showing iteration {run.iteration:,} of {run.name}; close the window to end")
    view_run(run, asked.command, asked.seconds, asked.seed)
    return DONE


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.play", description=__doc__)
    add_run_arguments(parser, seconds=12.0)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help=".mp4 or .gif (default: videos/<iteration>.mp4 in the run's folder; "
        "for --policy <name>.mp4 here)",
    )
    parser.add_argument(
        "--command",
        type=_command,
        action="append",
        default=[],
        metavar='"VX VY YAW"',
        help="m/s, m/s, rad/s; several share the time (default: forward, turn, sideways, back)",
    )
    parser.add_argument("--width", type=whole_number, default=960, help="pixels (default: 960)")
    parser.add_argument("--height", type=whole_number, default=540, help="pixels (default: 540)")
    parser.add_argument("--viewer", action="store_true", help="open a window instead")
    asked = parser.parse(argv)
    check_source(asked)
    if asked.viewer and asked.out:
        raise UserError("--viewer writes no film: leave out --viewer or --out")
    check_between("--seconds", asked.seconds, 0.2, 600.0)
    for flag, pixels in (("--width", asked.width), ("--height", asked.height)):
        check_between(flag, pixels, 64, 4096)
        if pixels % 2:
            raise UserError(f"{flag} must be even (H.264), got {pixels}; try {pixels + 1}")
    return asked


def _command(text: str) -> tuple[float, float, float]:
    words = text.replace(",", " ").split()
    if len(words) != 3:
        allowed = '"vx vy yaw-rate", as in "0.5 0 0"'
        raise _type_error(f'"{text}" is not three numbers: {allowed}')
    vx, vy, yaw_rate = (number(word) for word in words)
    if max(abs(vx), abs(vy), abs(yaw_rate)) > 10.0:
        raise _type_error(f'"{text}" is too fast: at most 10 m/s, 10 m/s and 10 rad/s')
    return vx, vy, yaw_rate


def _type_error(message: str) -> Exception:
    from argparse import ArgumentTypeError

    return ArgumentTypeError(message)


def _output(asked: Namespace) -> Path | None:
    """Where the film goes, None for the run's own place.

    Raises:
      UserError: a folder, another ending, or a place that cannot be written.
    """
    if asked.out is None:
        return None
    path = Path(asked.out).expanduser()
    if path.is_dir():
        raise UserError(f"--out must be a file, but {path} is a folder; try {path / 'video.mp4'}")
    if path.suffix not in ENDINGS:
        better = path.with_suffix(".mp4")
        raise UserError(f'--out must end in .mp4 or .gif, got "{path}"; try {better}')
    _make_folder(path.parent)
    return path


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or type(error).__name__
        what = f"cannot write a film into {folder} ({reason})"
        raise UserError(f"{what}; choose another --out") from error


def _check_commands(run: Trained, commands: Sequence[tuple[float, float, float]]) -> None:
    """Say where a command is beyond what the policy was trained for.

    Raises:
      UserError: the robot takes no commands.
    """
    from jaxrl_hw.envs.robots import get_robot

    if commands and not get_robot(run.config.robot).base:
        raise UserError(f"--command is for robots that walk, not for {run.config.robot}")
    trained = run.config.joystick
    names = ("vx", "vy", "yaw_rate")
    for command in commands:
        for name, value in zip(names, command, strict=True):
            low, high = getattr(trained, name)
            if not low <= value <= high:
                told = " ".join(f"{x:g}" for x in command)
                _say(f'note: "{told}" goes beyond the trained {name} of {low:g} to {high:g}')
                break


class _Progress:
    """A line every few seconds, so that a slow drawing is not silent."""

    def __init__(self) -> None:
        self.began = self.said = time.monotonic()

    def drawn(self, count: int, total: int) -> None:
        now = time.monotonic()
        if now - self.said >= SAY_EVERY_S and count < total:
            left = (now - self.began) / count * (total - count)
            _say(f"picture {count} of {total}, {formats.duration(left)} left")
            self.said = now


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
