"""What all phases of a run share while its folder is claimed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
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
from jaxrl_hw.training.build import Build, build_step
from jaxrl_hw.training.stopping import StopRequest
from jaxrl_hw.training.trainer import Callback


@dataclass(frozen=True)
class TrainContext:
    """The services of a run; `open_context` makes one."""

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

    def update_mirror(self) -> None:
        """Copy what has changed in the run folder to the mirror, in the background."""
        if self.mirror is not None:
            self.mirror.request()


@contextlib.contextmanager
def open_context(
    config: Config,
    plan: Plan,
    folder: RunDir,
    console: Console,
    stop: StopRequest,
    callback: Callback | None,
    build: Build | None,
    fresh_process: bool,
) -> Iterator[TrainContext]:
    """Open what writes beside the training; leaving finishes the writing.

    Args: as for `fit` and `TrainContext`; plan is the one that the run starts with.
    """
    settled, warn = plan.config, console.warning
    mirrors: list[Mirror] = []  # filled below: the mirror reads what the checkpoints have written

    def on_saved() -> None:
        for mirror in mirrors:
            mirror.request()

    with contextlib.ExitStack() as stack:
        checkpoints = stack.enter_context(
            Checkpoints(
                folder.checkpoints,
                settled.keep,
                warn,
                keep_every=settled.keep_every,
                config=validation.to_dict(settled),
                on_saved=on_saved,
            )
        )
        if plan.mirror is not None:
            renew = settled.resume == "never"
            mirror = Mirror(folder, plan.mirror, checkpoints.store, warn, replace=renew)
            mirrors.append(stack.enter_context(mirror))
        yield TrainContext(
            config=config,
            folder=folder,
            console=console,
            stop=stop,
            callback=callback,
            build=build or build_step,
            checkpoints=checkpoints,
            mirror=mirrors[0] if mirrors else None,
            memory=MemoryWatch(plan.hardware.platform),
            log=MetricsLog(folder.metrics_jsonl, warn),
            fresh_process=fresh_process,
        )
