"""All checks, in the order in which they are made."""

from __future__ import annotations

import tempfile
from pathlib import Path

from jaxrl_hw.cli.doctor import (
    check_devices,
    check_disk,
    check_loggers,
    check_matmul,
    check_memory,
    check_physics,
    check_rendering,
    check_training,
    check_variables,
    check_versions,
)
from jaxrl_hw.cli.doctor.results import Finding
from jaxrl_hw.cli.doctor.runner import Check, UnderWay, Visit, run_checks

_ELSEWHERE = 'see "version" and "environment"'
_TRACE = "the whole error: python -m jaxrl_hw.train --robot cartpole --iterations 2"

CHECKS = (
    Check("version", "", "reading versions", check_versions.check),
    Check("devices", "", "opening devices", check_devices.check, _ELSEWHERE),
    Check("environment", "", "reading environment variables", check_variables.check),
    Check("memory", "", "reading memory", check_memory.check),
    Check("matmul", "", "multiplying matrices", check_matmul.check, _ELSEWHERE, on_device=True),
    Check(
        "physics",
        "native",
        "stepping physics on MuJoCo's C engine",
        check_physics.check("native"),
        _ELSEWHERE,
        on_device=True,
    ),
    Check(
        "physics",
        "mjx",
        "stepping physics on MJX",
        check_physics.check("mjx"),
        _ELSEWHERE,
        on_device=True,
    ),
    Check("training", "", "training a cartpole", check_training.check, _TRACE, on_device=True),
    Check("rendering", "", "drawing a picture off screen", check_rendering.check),
    Check(
        "run folder",
        "",
        "writing to the run folder",
        check_disk.check,
        "name another: --run-dir DIR",
    ),
    Check("curves", "", "importing what draws curves", check_loggers.check),
)


def examine(run_dir: Path, under_way: UnderWay) -> list[Finding]:
    """Make all checks; takes less than a minute on two cores, and leaves nothing behind.

    Args:
      run_dir: where runs would be written; it need not be there yet.
      under_way: entered with what is being checked, for as long as it is.
    """
    with tempfile.TemporaryDirectory(prefix="jaxrl_hw-doctor-") as scratch:
        return run_checks(CHECKS, Visit(run_dir, Path(scratch)), under_way)
