"""A run's folder made ready for this process, and closed to all others while it trains."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from jaxrl_hw.checkpointing.mirror import copy_back
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.checkpointing.store import CheckpointStore
from jaxrl_hw.config.schema import Config
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning.continuation import move_aside
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.planning.planner import make_plan
from jaxrl_hw.policies.sources import origin_of


@contextlib.contextmanager
def claimed(config: Config, console: Console) -> Iterator[tuple[Plan, RunDir]]:
    """The plan of a run, printed, and its folder, in which nobody else trains meanwhile.

    A run that is only in its mirror is copied back first.

    Raises:
      UserError: the config cannot be used, the folder holds another run, or another process trains
        in it.
      RunError: the disk cannot be written.
    """
    plan = make_plan(config)
    if plan.config.init_from and not plan.iterations_done:
        origin_of(plan.config.init_from)
    folder = RunDir(plan.folder)
    if plan.config.resume == "never" and folder.newest_checkpoint():
        folder.claim()  # not from under a process that trains in it
        try:
            move_aside(folder, console)
        finally:
            folder.release()
    folder.prepare()
    folder.claim()
    try:
        CheckpointStore(folder.checkpoints).recover()
        if plan.source == plan.folder and folder.newest_checkpoint() != plan.iterations_done:
            plan = make_plan(config)  # another process has trained here between the plan and now
        console.plan(plan.rows(), plan.warnings)
        if plan.source != plan.folder:
            _copy_back(plan, folder, console)
        yield plan, folder
    finally:
        folder.release()


def _copy_back(plan: Plan, folder: RunDir, console: Console) -> None:
    copy_back(RunDir(plan.source), folder)
    copied = CheckpointStore(folder.checkpoints).iterations()
    console.message(
        f"copied back from the mirror {plan.source}: {len(copied)} checkpoints, "
        f"the newest of iteration {copied[-1]:,}"
    )
