"""All checks in order. A check that raises becomes a row like any other."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.cli.doctor import (
    check_devices,
    check_disk,
    check_matmul,
    check_memory,
    check_optional,
    check_physics,
    check_training,
    check_variables,
    check_versions,
)
from jaxrl_hw.cli.doctor.results import FAIL, CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import one_line

Progress = Callable[[str], AbstractContextManager[Any]]


class Check(NamedTuple):
    """One part of the installation."""

    name: str
    item: str
    """Of the row that says why the check itself failed."""
    label: str
    """Shown while it runs: "opening devices"."""
    run: Callable[[Context], Iterable[CheckResult]]
    advice: str = ""
    """What to do where the check itself fails."""
    needs_device: bool = False


_SEE = 'see "version" and "environment"'
_TRACEBACK = "the whole error: python -m jaxrl_hw.train --robot cartpole --iterations 2"
_FOLDER = "name another folder: --run-dir DIR"

CHECKS = (
    Check("version", "", "reading versions", check_versions.check, "pip install packaging"),
    Check("devices", "", "opening devices", check_devices.check, _SEE),
    Check("environment", "", "reading environment variables", check_variables.check),
    Check("memory", "", "reading memory", check_memory.check),
    Check("matmul", "", "multiplying matrices", check_matmul.check, _SEE, True),
    Check("physics", "native", "stepping MuJoCo's C engine", check_physics.native, _SEE, True),
    Check("physics", "mjx", "stepping MJX", check_physics.mjx, _SEE, True),
    Check("physics", "warp", "stepping MuJoCo Warp", check_physics.warp, _SEE, True),
    Check("training", "", "training a cartpole", check_training.check, _TRACEBACK, True),
    Check("rendering", "", "drawing a picture off screen", check_optional.check_rendering),
    Check("run folder", "", "writing to the run folder", check_disk.check, _FOLDER),
    Check("curves", "", "importing TensorBoard and W&B", check_optional.check_loggers),
)


NAMES = tuple(dict.fromkeys(check.name for check in CHECKS))


def examine(run_dir: Path, progress: Progress, only: Sequence[str] = ()) -> list[CheckResult]:
    """Run the checks; all take less than a minute on two cores, and leave nothing behind.

    run_dir: where runs would be written; it need not exist.
    progress: a context manager, entered with the label of each check while that runs.
    only: names of the checks to run, of `NAMES`; none for all. "devices" always runs, as others
        build on it.
    """
    chosen = [check for check in CHECKS if not only or check.name in (*only, "devices")]
    with tempfile.TemporaryDirectory(prefix="jaxrl_hw-doctor-") as scratch:
        return run_checks(chosen, Context(run_dir, Path(scratch)), progress)


def run_checks(checks: Iterable[Check], context: Context, progress: Progress) -> list[CheckResult]:
    """The rows of these checks, in their order."""
    rows: list[CheckResult] = []
    for check in checks:
        if check.needs_device and context.opened is None:
            untried = "not tried, because JAX opens no device"
            rows.append(CheckResult(check.item, untried, 'see "devices"', check=check.name))
            continue
        with progress(check.label):
            try:
                for row in check.run(context):
                    rows.append(replace(row, check=check.name))
            except Exception as error:  # whatever fails here, the other checks still run
                text, name = one_line(error), check.name
                rows.append(CheckResult(check.item, text, check.advice, status=FAIL, check=name))
    return rows
