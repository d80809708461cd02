"""What training does not need: a picture drawn off screen, TensorBoard, Weights & Biases."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterator
from itertools import starmap
from typing import Any

from jaxrl_hw.cli.doctor.results import FAIL, CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import CallError, run_in_subprocess
from jaxrl_hw.evaluation.opengl import PACKAGES, choose_backend
from jaxrl_hw.hardware.cuda_plugin import installed_version

_SIZE = (160, 96)
_LOGGERS = (
    ("TensorBoard files", "tensorboardX.event_file_writer", "runs write only metrics.jsonl"),
    ("TensorBoard", "tensorboard", "optional; pip install tensorboard shows a run's curves"),
    ("W&B", "wandb", "optional; --wandb sends a run's curves"),
)
"""Row, module to import, and what its absence means."""


def check_rendering(context: Context) -> Iterator[CheckResult]:
    """A row: which OpenGL draws, or what to install for films."""
    try:
        yield judge_picture(run_in_subprocess(draw, timeout_s=45))
    except CallError as error:
        why = str(error).partition("; on Debian")[0]
        advice = f"unset MUJOCO_GL, or {PACKAGES}" if os.environ.get("MUJOCO_GL") else PACKAGES
        advice = "unset MUJOCO_GL" if why.startswith("unknown MUJOCO_GL") else advice
        yield CheckResult("", f"no films: {why}", advice)


def judge_picture(seen: dict[str, Any]) -> CheckResult:
    """The row of what `draw` returned."""
    width, height = seen["size"]
    text = f"{width} x {height} pixels with {seen['backend'].upper()}, {seen['colours']} colours"
    if seen["colours"] > 1:
        return CheckResult("", text, figures=seen)
    advice = "try another: MUJOCO_GL=egl or MUJOCO_GL=osmesa"
    return CheckResult("", f"{text}: films would be empty", advice, seen, FAIL)


def draw() -> dict[str, Any]:
    """Draw a cartpole: {"backend": ..., "size": [width, height], "colours": how many differ}."""
    backend = choose_backend()
    import numpy as np

    from jaxrl_hw.envs.robots import get_robot
    from jaxrl_hw.evaluation.video import Renderer

    model = get_robot("cartpole").load()
    with Renderer(model, _SIZE, backend) as renderer:
        picture = renderer.frame(np.array([0.0, 0.5]))
    colours = len(np.unique(picture.reshape(-1, 3), axis=0))
    return {"backend": backend, "size": list(_SIZE), "colours": colours}


def check_loggers(context: Context) -> Iterator[CheckResult]:
    """A row for each package behind a run's curves; none ever fails."""
    return starmap(_logger_row, _LOGGERS)


def is_importable(module: str) -> bool:
    """Whether a module is installed; imports it, and raises what that raises."""
    try:
        if importlib.util.find_spec(module) is None:
            return False
    except ModuleNotFoundError:  # the package that it belongs to
        return False
    importlib.import_module(module)
    return True


def _logger_row(item: str, module: str, absent: str) -> CheckResult:
    package = module.partition(".")[0]
    figures = {"package": package, "version": installed_version(package)}
    advice = ""
    try:
        if run_in_subprocess(is_importable, module, timeout_s=30):
            text = " ".join(filter(None, (package, figures["version"], "can be imported")))
        else:
            text = f"{package} is not installed: {absent}"
            if package == "tensorboardX":  # a dependency
                advice = f"pip install {package}"
    except CallError as error:
        text = f"{package} cannot be imported: {error}"
        advice = f"pip install --force-reinstall {package}"
    return CheckResult(item, text, advice, figures)
