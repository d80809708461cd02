"""How fast each number of environments is: short trainings, each in a process of its own."""

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
from jaxrl_hw.hardware.sizing import enough_envs
from jaxrl_hw.planning.memory_model import footprint
from jaxrl_hw.planning.plan import Plan

ITERATIONS = 6
"""Of each training: enough for its speed to be stored (`training.build.learned`)."""


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
    """Run `python -m jaxrl_hw.train` with the flags, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "run"
        # a run that shrank would be measured under the wrong number of environments
        own = ["--on-oom", "fail", "--no-tensorboard", "--run-dir", str(run)]
        command = [sys.executable, "-m", "jaxrl_hw.train", *flags, *own]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
        )
        if done.returncode:
            err = done.stderr.decode(errors="replace")
            return Outcome(done.returncode, failure(done.returncode, err), {}, [])
        lines = (run / "metrics.jsonl").read_text().splitlines()
        plan = json.loads((run / "plan.json").read_text())
        return Outcome(0, "", plan, [json.loads(line) for line in lines])


def probe(plan: Plan, report: Callable[[str], None]) -> None:
    """Train `ITERATIONS` iterations with each candidate of this machine's plan, smallest first.

    Each run stores its speed in the measurement cache, where the next plan finds it. Sizes that do
    not fit are left out. It ends after a size that failed, or gained too little to be worth its
    time (`sizing.enough_envs`).

    report: given a line for each size before it is tried, and one where a run fails.
    """
    most = plan.config.max_envs or math.inf
    fitting = (c.num_envs for c in plan.sizing.candidates if c.fits is not False)
    sizes = sorted(n for n in fitting if n <= most)
    # a new run, mirrored nowhere
    short = replace(plan.config, timesteps=0, iterations=ITERATIONS, resume="never")
    short = replace(short, time_limit="", mirror="", early_stop="")
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "config.json"
        for size in sizes:
            report(f"training {ITERATIONS} iterations with {size:,} environments for their speed")
            path.write_text(json.dumps(validation.to_dict(replace(short, num_envs=size))))
            reason = train(["--config", str(path), "--robot", plan.config.robot]).reason
            if reason:
                report(f"{size:,} environments were not measured: {reason}")
                return
            known = footprint(plan.config, plan.hardware).rates
            if enough_envs({n: known[n] for n in sizes if n <= size and n in known}) is not None:
                return


def failure(code: int, err: str) -> str:
    """Why a command ended with a code other than 0, by its stderr, in one line."""
    if code < 0:
        return f"killed by signal {-code} ({signal.strsignal(-code)})"
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return f"exit code {code}: {(errors or lines or ['no message'])[-1][:300]}"
