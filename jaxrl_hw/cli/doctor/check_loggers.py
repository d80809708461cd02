"""What draws a run's curves: TensorBoard's files, TensorBoard itself, Weights & Biases."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from typing import Any, NamedTuple

from jaxrl_hw.cli.doctor.check_versions import installed
from jaxrl_hw.cli.doctor.results import PASS, WARN, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import NoResult, call
from jaxrl_hw.cli.doctor.runner import Visit

LIMIT_S = 30.0
_CHECK = "curves"


class Logger(NamedTuple):
    """A package that is imported to see whether it can be."""

    item: str
    package: str
    module: str
    absent: str
    """What it means that it is not installed."""


LOGGERS = (
    Logger(
        "TensorBoard files",
        "tensorboardX",
        "tensorboardX.event_file_writer",
        "runs write no TensorBoard files, only metrics.jsonl",
    ),
    Logger(
        "TensorBoard",
        "tensorboard",
        "tensorboard",
        "optional; to look at the curves of a run: pip install tensorboard",
    ),
    Logger("W&B", "wandb", "wandb", "optional; nothing here needs it"),
)


def check(visit: Visit) -> Iterator[Finding]:
    """A row for each; none of them ever fails, as training goes on without."""
    for logger in LOGGERS:
        yield _row(logger)


def importable(module: str) -> bool:
    """Whether a module is there; imports it, and raises what that raises."""
    try:
        if importlib.util.find_spec(module) is None:
            return False
    except ModuleNotFoundError:  # of the package that it belongs to
        return False
    importlib.import_module(module)
    return True


def _row(logger: Logger) -> Finding:
    figures: dict[str, Any] = {"package": logger.package, "version": installed(logger.package)}
    fix = f"pip install --force-reinstall {logger.package}"
    try:
        there = call(importable, logger.module, limit_s=LIMIT_S)
    except NoResult as error:
        text = f"{logger.package} cannot be imported: {error}"
        return Finding(_CHECK, logger.item, WARN, text, fix, figures)
    if there:
        text = f"{logger.package} {figures['version'] or ''} can be imported"
        return Finding(_CHECK, logger.item, PASS, " ".join(text.split()), figures=figures)
    status = WARN if logger.package == "tensorboardX" else PASS
    advice = f"pip install {logger.package}" if status == WARN else ""
    text = f"{logger.package} is not installed: {logger.absent}"
    return Finding(_CHECK, logger.item, status, text, advice, figures)
