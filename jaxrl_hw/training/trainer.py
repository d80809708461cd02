"""Train a run: claim its folder, plan, restore, build, iterate, close."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from jaxrl_hw.checkpointing.mirror import copied_back, copy_back
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.checkpointing.store import CheckpointStore
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_duration
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import garbage, xla
from jaxrl_hw.hardware.detect import refine
from jaxrl_hw.hardware.gpu_load import GpuWatch, Read, read_load
from jaxrl_hw.hardware.memory import MemoryWatch, map_large
from jaxrl_hw.hardware.processes import Processes
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.jsonl import MetricsLog
from jaxrl_hw.loggers.wandb_log import WandbLog, check_installed
from jaxrl_hw.planning.continuation import move_aside
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.policies.sources import origin_of
from jaxrl_hw.training import several
from jaxrl_hw.training.group import ALONE, Group
from jaxrl_hw.training.parts import Parts
from jaxrl_hw.training.stopping import Callback, StopRequest

if TYPE_CHECKING:
    from jaxrl_hw.training.build import Build
    from jaxrl_hw.training.run import Run


def fit(
    config: Config,
    callback: Callback | None = None,
    console: Console | None = None,
    *,
    build: Build | None = None,
    parts: Parts | None = None,
    read_gpu: Read | None = None,
    processes: Processes | None = None,
    stop: StopRequest | None = None,
) -> Run:
    """Train until the goal, a stop request or the time limit; continue the run in the run folder.

    Args:
      config: of the run; `make_plan` settles "auto" values.
      callback: called with each iteration's row of metrics.jsonl; True stops the run, saved.
      console: where messages go; stdout by default.
      build, parts: make the train step, and all before it; by default `build_step` and `Parts`.
      read_gpu: gives the load of the GPU; by default NVML does where the run is on one.
      processes: which of several processes this one is; callback and console are the first one's.
      stop: asks the run to stop; by default signals and the time limit do.

    Returns:
      The run; `ended` says why it stopped.

    Raises:
      UserError: the config cannot be used, the run folder is another's or in use, processes differ.
      RunError: no checkpoint restores, the disk or a process fails, or nothing fits in memory.
    """
    fresh_process = "jax" not in sys.modules
    _check(config, build)
    with contextlib.ExitStack() as stack:
        console = stack.enter_context(console or _console_of(config))
        group, config, console = _join(processes, config, console, stack)
        plan, folder = stack.enter_context(_claim(config, console, group))
        stop = stack.enter_context(stop or _stop_request(plan.config))
        plan = _load_jax(config, plan, console, group, stack)
        from jaxrl_hw.training.phases import Phases, open_checkpoints
        from jaxrl_hw.training.session import TrainContext

        checkpoints, mirror = open_checkpoints(plan, folder, console, group, stack)
        context = TrainContext(
            config=config,
            folder=folder,
            console=console,
            stop=stop,
            callback=callback if group.is_first else None,
            build=build,
            parts=parts or Parts(),
            checkpoints=checkpoints,
            mirror=mirror,
            memory=MemoryWatch(plan.hardware.platform),
            log=MetricsLog(folder.metrics_jsonl, console.warning),
            wandb=_open_wandb(plan, console, stack),
            gpu=_open_gpu(plan, read_gpu, console, stack),
            fresh_process=fresh_process,
            group=group,
        )
        return Phases(context, plan).run()


def _check(config: Config, build: Build | None) -> None:
    check_installed(config.wandb)
    if config.seeds > 1 and build is None:
        raise UserError(f"fit trains one seed, got seeds={config.seeds}: use fit_seeds")


def _stop_request(config: Config) -> StopRequest:
    return StopRequest(parse_duration(config.time_limit) if config.time_limit else None)


def _console_of(config: Config) -> Console:
    return Console(form=config.log_format, quiet=config.quiet)


def _open_wandb(plan: Plan, console: Console, stack: contextlib.ExitStack) -> WandbLog:
    wandb = WandbLog(plan.config.wandb, console.message, console.warning)
    stack.callback(wandb.close)
    return wandb


def _open_gpu(
    plan: Plan, read: Read | None, console: Console, stack: contextlib.ExitStack
) -> GpuWatch:
    if read is None and plan.hardware.platform == "gpu":
        read = read_load
    gpu = GpuWatch(read, console.warning)
    stack.callback(gpu.close)
    return gpu


def _join(
    processes: Processes | None, config: Config, console: Console, stack: contextlib.ExitStack
) -> tuple[Group, Config, Console]:
    """All processes of the run, connected, and this one's config and console; None for a run's
    only process.

    Those of the first train on all devices unless told otherwise. The others take the first one's
    config when it has settled that, and write into a folder that is thrown away.
    """
    if processes is None:
        return ALONE, config, console
    with console.compiling(f"waiting for {processes.number} processes"):
        star = stack.enter_context(several.joined(processes, config))
    if star.is_first:
        return star, replace(config, devices=config.devices or "all"), console
    nowhere = stack.enter_context(open(os.devnull, "w"))  # noqa: SIM115 - the stack closes it
    return star, several.as_follower(config, star), stack.enter_context(Console(nowhere))


@contextlib.contextmanager
def _claim(config: Config, console: Console, group: Group) -> Iterator[tuple[Plan, RunDir]]:
    """The run's plan, printed, and its folder, which no other process can train in meanwhile.

    A run that only its mirror still has is copied back first.
    """
    plan = several.plan_of(group, config)
    if plan.config.init_from and not plan.iterations_done:
        origin_of(plan.config.init_from)  # refuses what is no policy before anything is written
    folder = RunDir(plan.folder)
    if plan.config.resume == "never" and folder.newest_checkpoint():
        folder.claim()  # refused while another process trains in it
        try:
            move_aside(folder, console)
        finally:
            folder.release()
    folder.prepare()
    folder.claim()
    try:
        CheckpointStore(folder.checkpoints).recover()
        if plan.source == plan.folder and folder.newest_checkpoint() != plan.iterations_done:
            # another process has trained here since the plan was made
            plan = several.plan_of(group, config)
        several.tell(group, plan)
        plan = several.agreed_plan(group, plan, config)
        console.plan(plan.rows(), plan.warnings)
        if plan.source != plan.folder:
            mirror = RunDir(plan.source)
            copy_back(mirror, folder)
            iterations = CheckpointStore(folder.checkpoints).iterations()
            console.message(copied_back(mirror, iterations))
        yield plan, folder
    finally:
        folder.release()


def _load_jax(
    config: Config, plan: Plan, console: Console, group: Group, stack: contextlib.ExitStack
) -> Plan:
    """Load jax; the plan by what the open device says of its memory."""
    with console.compiling("loading jax"), garbage.seldom():
        import jaxrl_hw.training.phases  # noqa: F401 - seconds: jax, MuJoCo, flax, optax
    xla.apply_pending()
    stack.enter_context(several.jax_joined(group))
    if plan.hardware.platform == "cpu":
        map_large()
        return plan
    refined = several.plan_of(group, config, refine(plan.hardware))
    refined = several.agreed_plan(group, refined, config)
    if refined.config != plan.config:
        console.message("the open device changes the plan:")
        console.plan(refined.rows(), refined.warnings)
    return refined
