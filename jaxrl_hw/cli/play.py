"""Watch a trained policy.

    python -m jaxrl_hw.play --run-dir runs/g1-joystick-ppo-0

Without a run: --policy zoo:g1, or --policy policy.npz.

Writes a film (.mp4 or .gif), drawn without a screen, or a 3D replay as a page (.html), which needs
no OpenGL; with --viewer it opens MuJoCo's window. The robot follows a schedule of commands, "vx vy
yaw-rate" in m/s, m/s and rad/s, one after the other: --command "0.5 0 0" --command "0 0 0.8". Falls
are shown and counted; the robot starts again.
"""

from __future__ import annotations

import os
import sys
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jaxrl_hw.checkpointing.files import write_bytes
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.arguments import (
    OneLineParser,
    add_run_arguments,
    check_source,
    make_writable,
    number,
    whole_number,
)
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.frame_progress import frame_progress
from jaxrl_hw.cli.shown_film import show_in_tensorboard
from jaxrl_hw.cli.trained_policy import OpenedPolicy, open_trained, print_note
from jaxrl_hw.config.resolve import robot_spec, task_name
from jaxrl_hw.errors import RunError, UserError, check_between
from jaxrl_hw.evaluation import opengl
from jaxrl_hw.evaluation.trajectory import TrainedPolicy
from jaxrl_hw.loggers import formats

if TYPE_CHECKING:
    from jaxrl_hw.evaluation.film import Take

SUFFIXES = (".mp4", ".gif", ".html")


def main(
    argv: Sequence[str] | None = None, choose_backend: Callable[[], str] = opengl.choose_backend
) -> int:
    """Exit code 0: drawn or shown; 2: bad input; 1: nothing here can draw, or the disk is full."""

    def body() -> int:
        args = _parse(sys.argv[1:] if argv is None else argv)
        if args.viewer:
            return _view(args)
        return _draw(args, [_out_path(text) for text in args.out], choose_backend)

    return run_command(body)


def _draw(args: Namespace, outs: list[Path], choose_backend: Callable[[], str]) -> int:
    """Drive the policy once, and write every film and replay that is asked for."""
    began = time.monotonic()
    films = not outs or any(path.suffix != ".html" for path in outs)
    backend = choose_backend() if films else ""
    drawing = f", drawing with {backend.upper()}" if films else ""
    print(f"loading {check_source(args)}{drawing}", flush=True)
    run = open_trained(args)
    from jaxrl_hw.evaluation.film import drive_take

    if not outs:
        outs = [run.film]
        make_writable(run.film.parent, "a film")
    _check_commands(run, args.command, args.push)
    take = drive_take(run, args.seconds, args.command, args.seed, args.push)
    print_note(run.name, run.note)
    fell = int(take.trajectory.falls[0])
    falls = f"{fell} fall{'' if fell == 1 else 's'}"
    for path in outs:
        is_page = path.suffix == ".html"
        what = _write_replay(run, take, path) if is_page else _film(args, run, take, path, backend)
        print(
            f"{path}: {formats.size(path.stat().st_size)}, {what}, iteration {run.iteration:,}, "
            f"{falls}, took {formats.duration(time.monotonic() - began)}"
        )
        if args.run_dir is not None and not is_page:
            show_in_tensorboard(RunDir(args.run_dir), run.iteration, path)
    return DONE


def _film(args: Namespace, run: OpenedPolicy, take: Take, path: Path, backend: str) -> str:
    from jaxrl_hw.evaluation.film import film_take

    size = (args.width, args.height)
    film = film_take(run, take, path, size, backend, frame_progress())
    return f"{film.frames} frames of {size[0]} x {size[1]}"


def _write_replay(run: OpenedPolicy, take: Take, path: Path) -> str:
    from jaxrl_hw.cli.report.page import replay_page
    from jaxrl_hw.evaluation.replay import replay_of

    replay = replay_of(robot_spec(run.config).load(take.trajectory.timestep), take)
    write_bytes(path, replay_page(replay, run.name).encode())
    return f"{replay['frames']} frames for a browser"


def _view(args: Namespace) -> int:
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not screen:
        raise RunError(
            "--viewer needs a display, and DISPLAY is not set; leave --viewer out to write a film"
        )
    run = open_trained(args)
    from jaxrl_hw.evaluation.viewer import view_run

    _check_commands(run, args.command, args.push)
    text = f"showing iteration {run.iteration:,} of {run.name}; close the window to end"
    print(text, flush=True)
    print_note(run.name, run.note)
    view_run(run, args.command, args.seconds, args.seed, args.push)
    return DONE


def _parse(argv: Sequence[str]) -> Namespace:
    parser = OneLineParser(prog="python -m jaxrl_hw.play", description=__doc__)
    driven = add_run_arguments(parser, seconds=12.0)
    about = "m/s, m/s, rad/s; several share the time (default: forward, turn, sideways, back)"
    driven.add_argument(
        "--command", type=_command, action="append", default=[], metavar='"X Y YAW"', help=about
    )
    about = "m/s: push the robot every 2.5 s in a random direction"
    driven.add_argument("--push", type=number, default=0.0, metavar="SPEED", help=about)
    output = parser.add_argument_group("film or window")
    about = (
        ".mp4, .gif or .html, more than once too (default: videos/<iteration>.mp4 of the run; with "
        "--policy <name>.mp4)"
    )
    output.add_argument("--out", action="append", default=[], metavar="FILE", help=about)
    for flag, pixels in (("--width", 960), ("--height", 540)):
        about = f"of the film, pixels (default: {pixels})"
        output.add_argument(flag, type=whole_number, default=pixels, metavar="N", help=about)
    output.add_argument("--viewer", action="store_true", help="open a window instead")
    args = parser.parse(argv)
    check_source(args)
    if args.viewer and args.out:
        raise UserError("--viewer writes no film: leave out --viewer or --out")
    check_between("--seconds", args.seconds, 0.2, 600.0)
    check_between("--push", args.push, 0.0, 5.0)
    for flag, pixels in (("--width", args.width), ("--height", args.height)):
        check_between(flag, pixels, 64, 4096)
        if pixels % 2:
            raise UserError(f"{flag} must be even (H.264), got {pixels}; try {pixels + 1}")
    return args


def _command(text: str) -> tuple[float, float, float]:
    """A value of --command, for argparse."""
    words = text.replace(",", " ").split()
    if len(words) != 3:
        allowed = '"vx vy yaw-rate", as in "0.5 0 0"'
        raise ArgumentTypeError(f'"{text}" is not three numbers: {allowed}')
    vx, vy, yaw_rate = (number(word) for word in words)
    if max(abs(vx), abs(vy), abs(yaw_rate)) > 10.0:
        raise ArgumentTypeError(f'"{text}" is too fast: at most 10 m/s, 10 m/s and 10 rad/s')
    return vx, vy, yaw_rate


def _out_path(text: str) -> Path:
    """The path of --out. Raises UserError where it is a folder or has another suffix."""
    path = Path(text).expanduser()
    if path.is_dir():
        raise UserError(f"--out must be a file, but {path} is a folder; try {path / 'video.mp4'}")
    if path.suffix not in SUFFIXES:
        better = path.with_suffix(".mp4")
        raise UserError(f'--out must end in .mp4, .gif or .html, got "{path}"; try {better}')
    make_writable(path.parent, "a film")
    return path


def _check_commands(
    run: TrainedPolicy, commands: Sequence[tuple[float, float, float]], push: float
) -> None:
    """Print a note where a command is outside of the ranges that the policy was trained for.

    Raises:
      UserError: the robot takes no commands, or no pushes.
    """
    if (commands or push) and task_name(run.config) != "joystick":
        flag = "--command" if commands else "--push"
        raise UserError(f"{flag} is for robots that walk, not for {run.config.robot}")
    for command in commands:
        for name, value in zip(("vx", "vy", "yaw_rate"), command, strict=True):
            low, high = getattr(run.config.joystick, name)
            if not low <= value <= high:
                text = " ".join(f"{x:g}" for x in command)
                print(f'note: "{text}" goes beyond the trained {name} of {low:g} to {high:g}')
                break
