"""What all phases of a run share while its folder is claimed."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.mirror import Mirror
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.config.schema import Config
from jaxrl_hw.hardware.memory import MemoryWatch
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.jsonl import MetricsLog
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training.build import Build
from jaxrl_hw.training.stopping import Callback, StopRequest


@dataclass(frozen=True)
class TrainContext:
    """The services of a run."""

    config: Config
    """As asked for: its "auto" values are not settled."""
    folder: RunDir
    console: Console
    stop: StopRequest
    callback: Callback | None
    build: Build
    checkpoints: Checkpoints
    mirror: Mirror | None
    memory: MemoryWatch
    log: MetricsLog
    fresh_process: bool
    """Whether jax was not loaded before the run: the process's memory is the run's alone."""


def open_checkpoints(
    plan: Plan, folder: RunDir, console: Console, stack: ExitStack
) -> tuple[Checkpoints, Mirror | None]:
    """What saves beside the training; closing the stack finishes the writing."""
    config, mirror = plan.config, None
    checkpoints = Checkpoints(
        folder.checkpoints,
        config.keep,
        console.warning,
        keep_every=config.keep_every,
        config=validation.to_dict(config),
        on_saved=lambda: mirror.request() if mirror is not None else None,
    )
    stack.enter_context(checkpoints)
    if plan.mirror is not None:
        renew = config.resume == "never"
        mirror = Mirror(folder, plan.mirror, checkpoints.store, console.warning, replace=renew)
        stack.enter_context(mirror)
    return checkpoints, mirror
