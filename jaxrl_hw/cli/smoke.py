"""`train --smoke`: two iterations of a robot through all that a run goes through."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.command import BAD_INPUT, DONE, FAILED
from jaxrl_hw.cli.flags import taken
from jaxrl_hw.errors import RunError, UserError, one_line
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.jsonl import read_rows

SMOKE = "--smoke"
_EVALUATED_S = "3"
"""Simulated time of the evaluation; a robot that walks needs 2 s before it counts."""

Step = tuple[str, list[str], Callable[[], None]]
"""What is tried, the command's words, and a check of what it has left."""


def run_command_line(words: Sequence[str]) -> int:
    """Run `python -m jaxrl_hw.WORDS` and return its exit code."""
    command, *flags = words
    return subprocess.call([sys.executable, "-m", f"jaxrl_hw.{command}", *flags])


def smoke(argv: Sequence[str], run: Callable[[Sequence[str]], int] = run_command_line) -> int:
    """Plan, train and save an iteration, continue for another, evaluate; each in a process.

    Everything lies in a temporary folder. Prints whether all of it passes; returns exit code 0 if
    so, 2 where the flags cannot be used, else 1.

    Args:
      argv: flags of `train`.
      run: runs the words of a command and returns its exit code.
    """
    flags, began = [word for word in argv if word != SMOKE], time.monotonic()
    if taken(flags, "seeds")[0] is not None:
        raise UserError(f"{SMOKE} tries one run: leave --seeds out")
    with tempfile.TemporaryDirectory(prefix="jaxrl_hw-smoke-") as place:
        for name, words, check in _steps(flags, Path(place)):
            print(f"smoke: {name}", flush=True)
            code = run(words)
            if code == BAD_INPUT and words[0] == "plan":
                return BAD_INPUT  # it has said what is wrong
            try:
                if code != DONE:
                    raise RunError(f"exit code {code}")
                check()
            except (RunError, UserError) as error:
                print(f"smoke: FAIL ({name}: {one_line(error)})", file=sys.stderr)
                return FAILED
    print(f"smoke: pass, {formats.duration(time.monotonic() - began)}")
    return DONE


def _steps(flags: list[str], place: Path) -> Iterator[Step]:
    run, scores = RunDir(place / "run"), place / "scores.json"
    here = [*flags, "--run-dir", str(run.path), "--save-every", "1", "--mirror", ""]
    robot = taken(flags, "robot")[0]
    policy = ["--run-dir", str(run.path), *(["--robot", robot] if robot else [])]
    yield "plan", ["plan", *here], lambda: None
    for goal, resume in ((1, "never"), (2, "required")):
        text = "an iteration, saved" if goal == 1 else "continued for another"
        words = ["train", *here, "--iterations", str(goal), "--resume", resume]
        yield text, words, lambda goal=goal: _check_run(run, goal)  # type: ignore[misc]
    words = ["evaluate", *policy, "--seconds", _EVALUATED_S, "--json", str(scores)]
    yield "evaluated", words, lambda: _check_scores(scores)


def _check_run(run: RunDir, goal: int) -> None:
    """Raises RunError or UserError where a run is not as after `goal` sessions of an iteration."""
    rows = [row.get("iteration") for row in read_rows(run.metrics_jsonl)]
    begun = [session.get("first_iteration") for session in run.read_sessions()]
    wanted = list(range(1, goal + 1))
    if rows != wanted or begun != wanted:
        raise RunError(f"iterations {rows} in sessions from {begun}, not {wanted} in both")
    if run.newest_checkpoint() != goal:
        raise RunError(f"the newest checkpoint is {run.newest_checkpoint()}, not {goal}")


def _check_scores(path: Path) -> None:
    """Raises RunError where an evaluation has no figures, or one that is no finite number."""
    try:
        mean: dict[str, Any] = json.loads(path.read_text())["mean"]
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"no evaluation: {error}") from error
    bad = [name for name, x in mean.items() if x is None or not math.isfinite(x)]
    if bad or not mean:
        raise RunError(f"no finite {', '.join(bad) or 'figure'} in the evaluation")
