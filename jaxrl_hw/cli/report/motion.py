"""What the report shows of a policy in motion: a film, a replay, and an evaluation made now."""

from __future__ import annotations

import base64
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxrl_hw.checkpointing.files import write_json
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.play import frame_progress
from jaxrl_hw.cli.trained_policy import OpenedPolicy, open_trained
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.errors import RunError, UserError, one_line
from jaxrl_hw.loggers import formats

if TYPE_CHECKING:
    from jaxrl_hw.evaluation.film import Take

_LARGEST = 20e6
"""Bytes of a film that the page carries."""
_TYPES = {".mp4": "video/mp4", ".gif": "image/gif"}


@dataclass
class Motion:
    """What was made; empty where it was not asked for or not possible."""

    iteration: int = 0
    film: str = ""
    """A data URI."""
    replay: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What is missing, and why."""


def show_motion(
    args: Namespace, out: Path, say: Callable[[str], None], backend: Callable[[], str]
) -> Motion:
    """Drive the policy of a run's newest checkpoint, as the command line asks.

    Args:
      args: of `command`: run_dir, iteration, robot, policy (None), film, replay, evaluate.
      out: folder for the film and evaluation.json.
      say: prints a line of progress.
      backend: chooses an OpenGL (`opengl.choose_backend`).

    Raises:
      UserError: an evaluation that is asked for is not possible.
      RunError: it fails.
    """
    made, kind = Motion(), ""
    if args.film:  # before MuJoCo is imported
        try:
            kind = backend()
        except (RunError, UserError) as error:
            made.notes.append(f"no film: {one_line(error)}")
    if args.evaluate:
        say(f"evaluating: {args.evaluate}")
        run = open_trained(args)
        _evaluate(run, args.evaluate, out)
    if kind or args.replay:
        try:
            say("driving the policy")
            _take(made, open_trained(args), args, out, kind)
        except (RunError, UserError) as error:
            made.notes.append(f"no {'film' if kind else 'replay'}: {one_line(error)}")
    return made


def _evaluate(run: OpenedPolicy, suite: str, out: Path) -> None:
    from jaxrl_hw.evaluation.evaluate import evaluate

    write_json(out / "evaluation.json", evaluate(run, suite=suite).to_dict())


def _take(made: Motion, run: OpenedPolicy, args: Namespace, out: Path, backend: str) -> None:
    """The replay and the film of one episode. A film that is there already is taken as it is."""
    from jaxrl_hw.evaluation.film import drive_take
    from jaxrl_hw.evaluation.replay import replay_of

    made.iteration, name = run.iteration, f"{run.iteration}.mp4"
    places = (RunDir(run.name).videos / name, out / "videos" / name)
    film = next((place for place in places if place.is_file()), None)
    if args.replay or (backend and film is None):
        take = drive_take(run)
        if args.replay:
            model = robot_spec(run.config).load(take.trajectory.timestep)
            made.replay = replay_of(model, take)
        if backend and film is None:
            film = _film(run, take, places[1], backend)
    if backend and film is not None:
        _inline(made, film)


def _film(run: OpenedPolicy, take: Take, path: Path, backend: str) -> Path:
    from jaxrl_hw.evaluation.film import film_take

    path.parent.mkdir(parents=True, exist_ok=True)
    film_take(run, take, path, backend=backend, on_frame=frame_progress())
    return path


def _inline(made: Motion, path: Path) -> None:
    data = path.read_bytes()
    if len(data) > _LARGEST:
        made.notes.append(f"the film {path} is not in this page: it has {formats.size(len(data))}")
        return
    made.film = f"data:{_TYPES[path.suffix]};base64,{base64.b64encode(data).decode()}"
