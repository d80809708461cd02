"""What the report shows of a policy in motion: a film, a replay, and an evaluation made now."""

from __future__ import annotations

import base64
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.files import disk_errors, write_json
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.frame_progress import frame_progress
from jaxrl_hw.cli.shown_film import show_in_tensorboard
from jaxrl_hw.cli.trained_policy import OpenedPolicy, open_trained
from jaxrl_hw.errors import RunError, UserError, one_line
from jaxrl_hw.loggers import formats

_LARGEST = 20e6
"""Bytes of a film that the page carries."""


@dataclass
class Motion:
    """What was made; empty where it was not asked for or not possible."""

    iteration: int = 0
    film: str = ""
    """A data URI."""
    film_file: Path | None = None
    replay: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What is missing, and why."""


def show_motion(
    args: Namespace, out: Path, say: Callable[[str], None], backend: Callable[[], str]
) -> Motion:
    """Drive the policy of a run's newest checkpoint, as the command line asks.

    Args:
      args: of `command`: run_dir, iteration, robot, policy (None), film, replay, seconds,
        evaluate.
      out: folder for the film and evaluation.json.
      say: prints a line of progress.
      backend: chooses an OpenGL (`opengl.choose_backend`).

    Raises:
      UserError: the iteration or the evaluation that is asked for is not possible.
      RunError: it fails.
    """
    made, folder = Motion(), RunDir(args.run_dir)
    with disk_errors(f"read {folder.checkpoints}"):
        made.iteration = args.iteration or folder.newest_checkpoint()
    name = f"{made.iteration}.mp4"
    film = next((x for x in (folder.videos / name, out / "videos" / name) if x.is_file()), None)
    kind = ""
    if not made.iteration and (args.film or args.replay):
        made.notes.append("no film and no replay: the run has no checkpoint yet")
    elif args.film and film is None:
        kind = _opengl(made, backend)  # before MuJoCo is imported
    if args.evaluate:
        say(f"evaluating: {args.evaluate}")
        _evaluate(open_trained(args), args.evaluate, out)
    elif args.iteration is not None:
        open_trained(args)  # refuses one that is not there
    if made.iteration and (kind or args.replay):
        try:
            say("driving the policy")
            film = _drive(made, args, out, kind) or film
        except (RunError, UserError) as error:
            if args.iteration is not None:  # asked for by name
                raise
            made.notes.append(f"the policy is not shown in motion: {one_line(error)}")
    if args.film and film is not None:
        show_in_tensorboard(folder, made.iteration, film)
        _inline(made, film)
    return made


def _opengl(made: Motion, backend: Callable[[], str]) -> str:
    """The OpenGL that can draw here, "" and a note where none can."""
    try:
        return backend()
    except (RunError, UserError) as error:
        made.notes.append(f"no film: {one_line(error)}")
        return ""


def _evaluate(run: OpenedPolicy, suite: str, out: Path) -> None:
    from jaxrl_hw.evaluation.evaluate import evaluate

    write_json(out / "evaluation.json", evaluate(run, suite=suite).to_dict())


def _drive(made: Motion, args: Namespace, out: Path, backend: str) -> Path | None:
    """The replay of an episode, and with a backend its film, whose path is returned."""
    run = open_trained(args)
    from jaxrl_hw.config.factory import shown_model
    from jaxrl_hw.evaluation.film import drive_take, film_take
    from jaxrl_hw.evaluation.replay import replay_of

    made.iteration, take = run.iteration, drive_take(run, args.seconds)
    if args.replay:
        made.replay = replay_of(shown_model(run.config, take.trajectory.timestep), take)
    if not backend:
        return None
    path = out / "videos" / f"{run.iteration}.mp4"
    path.parent.mkdir(parents=True, exist_ok=True)
    film_take(run, take, path, backend=backend, on_frame=frame_progress())
    return path


def _inline(made: Motion, path: Path) -> None:
    made.film_file, data = path, path.read_bytes()
    if len(data) > _LARGEST:
        made.notes.append(f"the film {path} is not in this page: it has {formats.size(len(data))}")
        return
    made.film = f"data:video/mp4;base64,{base64.b64encode(data).decode()}"
