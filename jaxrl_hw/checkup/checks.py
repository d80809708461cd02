"""All checks, in the order in which they are made."""

from __future__ import annotations

import tempfile
from pathlib import Path

from jaxrl_hw.checkup import (
    devices,
    disk,
    loggers,
    matmul,
    memory,
    physics,
    rendering,
    training,
    variables,
    versions,
)
from jaxrl_hw.checkup.findings import Finding
from jaxrl_hw.checkup.running import Check, UnderWay, Visit, run_checks

_ELSEWHERE = 'see "version" and "environment"'
_TRACE = "the whole error: python -m jaxrl_hw.train --robot cartpole --iterations 2"

CHECKS = (
    Check("version", "", "reading versions", versions.check),
    Check("devices", "", "opening devices", devices.check, _ELSEWHERE),
    Check("environment", "", "reading environment variables", variables.check),
    Check("memory", "", "reading memory", memory.check),
    Check("matmul", "", "multiplying matrices", matmul.check, _ELSEWHERE, on_device=True),
    Check(
        "physics",
        "native",
        "stepping physics on MuJoCo's C engine",
        physics.check("native"),
        _ELSEWHERE,
        on_device=True,
    ),
    Check(
        "physics",
        "mjx",
        "stepping physics on MJX",
        physics.check("mjx"),
        _ELSEWHERE,
        on_device=True,
    ),
    Check("training", "", "training a cartpole", training.check, _TRACE, on_device=True),
    Check("rendering", "", "drawing a picture off screen", rendering.check),
    Check("run folder", "", "writing to the run folder", disk.check, "name another: --run-dir DIR"),
    Check("curves", "", "importing what draws curves", loggers.check),
)


def examine(run_dir: Path, under_way: UnderWay) -> list[Finding]:
    """Make all checks; takes less than a minute on two cores, and leaves nothing behind.

    Args:
      run_dir: where runs would be written; it need not be there yet.
      under_way: entered with what is being checked, for as long as it is.
    """
    with tempfile.TemporaryDirectory(prefix="jaxrl_hw-doctor-") as scratch:
        return run_checks(CHECKS, Visit(run_dir, Path(scratch)), under_way)
