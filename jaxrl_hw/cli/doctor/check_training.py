"""Two iterations of a cartpole, trained through the public API."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Iterator
from typing import Any

from jaxrl_hw.cli.doctor.results import FAIL, PASS, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import call
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.loggers import formats

LIMIT_S = 120.0
ITERATIONS = 2
_CHECK = "training"
_ENVS = 64


def check(visit: Visit) -> Iterator[Finding]:
    """A row with the time from a fresh Python to the last checkpoint, and the steps per second."""
    began = time.monotonic()
    seen = call(train, str(visit.scratch / "run"), limit_s=LIMIT_S, environ=visit.environ)
    yield judge({**seen, "seconds": time.monotonic() - began})


def judge(seen: dict[str, Any]) -> Finding:
    """The row of what `train` says, with the `seconds` that it took in all."""
    text = (
        f"cartpole, {seen['iteration']} iterations of {seen['num_envs']} environments in "
        f"{formats.duration(seen['seconds'])}, {formats.count(seen['env_steps_per_s'])} env "
        f"steps/s, {seen['physics']} physics, {formats.size(seen['memory_bytes'])}"
    )
    if seen["iteration"] != ITERATIONS or not seen["finite"]:
        what = "a loss is no number" if seen["iteration"] == ITERATIONS else "it stopped early"
        advice = "see what the other rows say, then train a cartpole by hand"
        return Finding(_CHECK, "", FAIL, f"{text}: {what}", advice, seen)
    return Finding(_CHECK, "", PASS, text, figures=seen)


def train(folder: str) -> dict[str, Any]:
    """Train in a folder that is not there yet, and say what came of it."""
    from dataclasses import replace

    import jaxrl_hw
    from jaxrl_hw.loggers.console import Console

    config = replace(
        jaxrl_hw.preset_config("cartpole"),
        num_envs=_ENVS,
        iterations=ITERATIONS,
        run_dir=folder,
    )
    run = jaxrl_hw.fit(config, console=Console(io.StringIO()))
    last = {name: column[-1] for name, column in run.metrics.items()}
    losses = [value for name, value in last.items() if name.startswith("loss/")]
    return {
        "iteration": run.iteration,
        "ended": run.ended,
        "num_envs": run.config.num_envs,
        "physics": run.config.physics,
        "env_steps_per_s": last["env_steps_per_s"],
        "memory_bytes": last["memory_bytes"],
        "finite": all(loss is not None and math.isfinite(loss) for loss in losses),
    }
