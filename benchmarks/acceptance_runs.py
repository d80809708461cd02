"""What the steps of gpu_acceptance.py share: sizes, a deadline, and real commands run under it."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import interruptions

from jaxrl_hw.planning.benchmark import failure

LIMIT_S = 460.0
"""Of a whole step. It leaves 20 s of the 8 minutes for what runs outside of commands."""


class Sizes(NamedTuple):
    """How much the steps do."""

    robot: str
    platform: str  # cpu, gpu or tpu
    num_envs: tuple[int, ...]  # the smallest first
    iterations: int  # of each run that is timed
    kills: int
    kill_after: tuple[float, float]  # s, at random in this range
    train_robot: str
    train_for: str  # a duration, as --time-limit takes it
    engines: tuple[str, ...]
    beside: tuple[str, ...]  # flags of versus_brax.py
    device: str = ""  # its name, as its driver tells it
    train: tuple[str, ...] = (sys.executable, "-m", "jaxrl_hw.train")


FULL = Sizes(
    *("g1", "gpu", (512, 2048, 4096, 8192, 16384), 8, 3, (30.0, 90.0), "g1_12dof", "5m"),
    engines=("warp", "mjx"),
    beside=("--num-envs", "4096", "--minibatches", "16"),
)
TINY = Sizes(
    *("cartpole", "cpu", (16, 32), 4, 1, (6.0, 10.0), "cartpole", "10s"),
    engines=("native",),
    beside=("--num-envs", "8", "--minibatches", "2", "--unroll", "4", "--net", "32", "32"),
)


class Failed(Exception):
    """What was expected did not happen; `figures` are those found until then."""

    def __init__(self, why: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(why)
        self.figures = figures or {}


class Skipped(Exception):
    """The step does not apply to this machine; says why."""


class Deadline:
    """When a step ends. All of its commands share it."""

    def __init__(self, seconds: float = LIMIT_S) -> None:
        self._seconds, self._end = seconds, time.monotonic() + seconds

    def left(self) -> float:
        """Seconds until then.

        Raises:
          Failed: there are none.
        """
        left = self._end - time.monotonic()
        if left <= 0.0:
            raise Failed(f"the {self._seconds:g} s of the step were over")
        return left


@contextmanager
def started(
    command: Sequence[str], environ: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """A command that runs inside the context; afterwards neither it nor what it started does."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environ or {})},
        start_new_session=True,  # a group of its own, which can be killed as a whole
    ) as process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def said(process: subprocess.Popen[str], deadline: Deadline) -> tuple[str, str]:
    """Stdout and stderr of a command, which ends before the deadline; raises Failed if not."""
    left = deadline.left()
    try:
        return process.communicate(timeout=left)
    except subprocess.TimeoutExpired:
        raise Failed(f"still ran after {left:.0f} s, when the step's time was over") from None


def run(
    command: Sequence[str],
    deadline: Deadline,
    *,
    codes: tuple[int, ...] = (0,),
    environ: Mapping[str, str] | None = None,
) -> str:
    """A command's stdout.

    codes: the exit codes of success.

    Raises:
      Failed: it ended with another one, or had not ended at the deadline.
    """
    deadline.left()
    with started(command, environ) as process:
        out, err = said(process, deadline)
    if process.returncode not in codes:
        raise Failed(failure(process.returncode, err))
    return out


def command(sizes: Sizes, place: Path, *flags: str) -> list[str]:
    """That of a short run in place/run."""
    base = [*sizes.train, "--robot", sizes.robot, "--no-tensorboard"]
    base += ["--iterations", str(sizes.iterations), "--run-dir", str(place / "run")]
    return [*base, *flags]


def trained(
    sizes: Sizes,
    deadline: Deadline,
    place: Path,
    *flags: str,
    environ: Mapping[str, str] | None = None,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A short run's plan.json with its number of environments, and its metrics."""
    run(command(sizes, place, *flags), deadline, environ=environ)
    plan = json.loads((place / "run" / "plan.json").read_text())
    config = json.loads((place / "run" / "config.json").read_text())["config"]
    return {**plan, "num_envs": config["num_envs"]}, interruptions.rows(place / "run")


def timed(
    sizes: Sizes,
    deadline: Deadline,
    num_envs: int,
    *flags: str,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Speed and memory of a short run, or why it failed."""
    given = ("--num-envs", str(num_envs), "--on-oom", "fail", *flags)
    with tempfile.TemporaryDirectory() as place:
        try:
            plan, metrics = trained(sizes, deadline, Path(place), *given, environ=environ)
        except Failed as error:
            return {"num_envs": num_envs, "failed": str(error)}
    return {
        "num_envs": num_envs,
        "env_steps_per_s": rate(metrics),
        "predicted_bytes": plan["predicted_bytes"]["total"],
        "measured_bytes": plan["measured_bytes"]["peak"],
    }


def rate(metrics: list[dict[str, Any]]) -> int:
    """Median env steps per second after the first two iterations, which warm up."""
    return round(statistics.median(row["env_steps_per_s"] for row in metrics[2:]))


def all_measured(rows: Mapping[str, dict[str, Any]], figures: dict[str, Any]) -> None:
    """Raises Failed, with the figures, where a row is missing; it says which ones, and why."""
    missing = [f"{name}: {row['failed']}" for name, row in rows.items() if "failed" in row]
    if missing:
        raise Failed(f"{len(missing)} of {len(rows)} not measured: {'; '.join(missing)}", figures)
