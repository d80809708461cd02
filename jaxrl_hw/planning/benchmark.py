"""How fast each number of environments is: short trainings, each a process of its own."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.config import validation
from jaxrl_hw.config.schema import Config
from jaxrl_hw.hardware.sizing import enough_envs
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.plan import Plan

ITERATIONS = 6
"""Of a probe: enough for its speed to be remembered (`building.learned`)."""


class Outcome(NamedTuple):
    """How a run of the train command ended."""

    code: int
    reason: str
    """Why it did not reach its goal, in one line; empty where it did."""
    plan: dict[str, Any]
    """Its plan.json."""
    metrics: list[dict[str, Any]]
    """The lines of its metrics.jsonl."""


def train(flags: Sequence[str]) -> Outcome:
    """Run `python -m jaxrl_hw.train` with the flags, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        command = [sys.executable, "-m", "jaxrl_hw.train", *flags]
        # with fewer environments than were asked for a figure would stand for the wrong number
        command += ["--on-oom", "fail", "--no-tensorboard", "--run-dir", str(run)]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace")
            return Outcome(done.returncode, ending(done.returncode, said), {}, [])
        lines = (run / "metrics.jsonl").read_text().splitlines()
        plan = json.loads((run / "plan.json").read_text())
        return Outcome(0, "", plan, [json.loads(line) for line in lines])


def probe(plan: Plan, tell: Callable[[str], None]) -> None:
    """Train `ITERATIONS` iterations with one candidate of a plan after the other, upwards.

    Each run leaves its speed among the remembered figures, where the next plan finds it. Sizes that
    memory does not hold or `max_envs` excludes are not tried, and none after one that was not worth
    its size (`sizing.enough_envs`) or that failed, which is told.

    Args:
      plan: of this machine.
      tell: given a line for each size before it is tried, and one where a run fails.
    """
    most = plan.config.max_envs or math.inf
    held = [c.num_envs for c in plan.sizing.candidates if c.fits is not False]
    sizes = sorted(n for n in held if n <= most)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "config.json"
        for size in sizes:
            tell(f"training {ITERATIONS} iterations with {size:,} environments for their speed")
            path.write_text(json.dumps(validation.to_dict(_short(plan, size))))
            done = train(["--config", str(path)])
            if done.reason:
                tell(f"{size:,} environments could not be timed: {done.reason}")
                return
            known = memory_model.footprint(plan.config, plan.hardware).rates
            rates = {n: known[n] for n in sizes if n <= size and n in known}
            if enough_envs(rates) is not None:
                return


def _short(plan: Plan, size: int) -> Config:
    """The config of a probe: a new run, nowhere mirrored."""
    return replace(
        plan.config,
        num_envs=size,
        iterations=ITERATIONS,
        resume="never",
        time_limit="",
        mirror="",
        early_stop="",
    )


def ending(code: int, said: str) -> str:
    """Why a command ended with a code other than 0, by what it wrote to stderr, in one line."""
    if code < 0:
        return f"killed by signal {-code} ({signal.strsignal(-code)})"
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    told = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return f"exit code {code}: {(told or lines or ['nothing was said'])[-1][:300]}"
