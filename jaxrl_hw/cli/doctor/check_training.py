"""Two iterations of a cartpole, trained through the public API."""

from __future__ import annotations

import io
import math
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jaxrl_hw.cli.doctor.results import FAIL, CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import run_in_subprocess
from jaxrl_hw.loggers import formats

ITERATIONS = 2
_ENVS = 64


def check(context: Context) -> Iterator[CheckResult]:
    """A row with the time from a fresh Python to the last checkpoint, and the steps per second."""
    began = time.monotonic()
    folder, environ = str(context.scratch / "run"), context.environ
    seen = run_in_subprocess(train, folder, timeout_s=120, environ=environ)
    yield judge({**seen, "seconds": time.monotonic() - began})


def judge(seen: dict[str, Any]) -> CheckResult:
    """The row of what `train` returned, with the `seconds` that it took in all."""
    text = (
        f"cartpole, {seen['iteration']} iterations of {seen['num_envs']} environments in "
        f"{formats.duration(seen['seconds'])}, {formats.count(seen['env_steps_per_s'])} env "
        f"steps/s, {seen['physics']} physics, {formats.size(seen['memory_bytes'])}"
    )
    if seen["iteration"] == ITERATIONS and seen["finite"]:
        return CheckResult("", text, figures=seen)
    what = "a loss is not finite" if seen["iteration"] == ITERATIONS else "it stopped early"
    advice = "see what the other rows say, then train a cartpole by hand"
    return CheckResult("", f"{text}: {what}", advice, seen, FAIL)


def train(folder: str) -> dict[str, Any]:
    """Train in a folder that does not exist yet."""
    import jaxrl_hw
    from jaxrl_hw.loggers.console import Console

    config = jaxrl_hw.preset_config("cartpole")
    config = replace(config, num_envs=_ENVS, iterations=ITERATIONS, run_dir=folder)
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
