"""The iterate phase: one session, which is a line of sessions.jsonl."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.mirror import Mirror
from jaxrl_hw.checkpointing.run_dir import RunDir, name_of
from jaxrl_hw.config import validation
from jaxrl_hw.config.curriculum import stage_index
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError
from jaxrl_hw.hardware.gpu_load import GpuWatch
from jaxrl_hw.hardware.memory import MemoryWatch
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.jsonl import MetricsLog
from jaxrl_hw.loggers.markdown import run_texts, sessions_text
from jaxrl_hw.loggers.tensorboard import TensorBoardLog
from jaxrl_hw.loggers.wandb_log import WandbLog
from jaxrl_hw.planning.continuation import SHRUNK_FROM
from jaxrl_hw.planning.disk_space import is_saved
from jaxrl_hw.planning.halving import HALVED
from jaxrl_hw.planning.replay import resumes_exactly
from jaxrl_hw.training.build import Build, Built, remember_session
from jaxrl_hw.training.crowding import Crowding
from jaxrl_hw.training.group import Group
from jaxrl_hw.training.instability import Skips, UnstableError, skipped_in_a_row
from jaxrl_hw.training.metrics import Meter, Row, past_early_stop
from jaxrl_hw.training.oom import is_out_of_memory
from jaxrl_hw.training.overflows import Overflows
from jaxrl_hw.training.parts import Parts
from jaxrl_hw.training.profiling import Profiler
from jaxrl_hw.training.shared_state import whole_state
from jaxrl_hw.training.stopping import CALLBACK, EARLY_STOP, GOAL, Callback, StopRequest
from jaxrl_hw.training.train_step import total_steps
from jaxrl_hw.types import TrainState

FAILED, OUT_OF_MEMORY, UNSTABLE = "failed", "out of memory", "unstable"
"""`ended` of a session that raised. After OUT_OF_MEMORY a smaller session follows, after UNSTABLE
one with half the learning rate."""


@dataclass(frozen=True)
class TrainContext:
    """The services of a run, while its folder is claimed."""

    config: Config
    """As asked for: its "auto" values are not settled."""
    folder: RunDir
    console: Console
    stop: StopRequest
    callback: Callback | None
    build: Build | None
    """None for `build_step`."""
    parts: Parts
    checkpoints: Checkpoints
    mirror: Mirror | None
    memory: MemoryWatch
    log: MetricsLog
    wandb: WandbLog
    gpu: GpuWatch
    fresh_process: bool
    """Whether jax was not loaded before the run: the process's memory is the run's alone."""
    group: Group
    """The processes that train the run."""


class Session:
    """Iterations on one compiled train step, from a state on.

    compile_s: seconds that building took.
    too_large: sizes that did not fit in memory before (`continuation.size_of`).
    rescued_stage: curriculum stage of the state's last iteration where the state was rescued from
        a session that ran out of memory, and is saved before anything else; else None.
    """

    def __init__(
        self,
        context: TrainContext,
        built: Built,
        state: TrainState,
        *,
        compile_s: float,
        too_large: Sequence[dict[str, int]] = (),
        rescued_stage: int | None = None,
    ) -> None:
        self.state = state
        """The last one, before the step that is under way, as the step takes it."""
        self.stage = rescued_stage or 0
        """Curriculum stage in which the last iteration was collected."""
        self._context, self._built, self._plan = context, built, built.plan
        self._compile_s, self._too_large = compile_s, list(too_large)
        self._rescued = rescued_stage is not None
        self._first = self._iteration = int(state.iteration)
        self._goal = goal_iteration(self._plan.config, self._first, total_steps(state.env_steps))
        self._early_stop = past_early_stop(self._plan.config, context.folder, self._first)
        in_a_row = context.group.decided(skipped_in_a_row(context.folder, self._first))
        self._skips = Skips(self._plan.config, in_a_row, context.console.warning)
        warn = context.console.warning
        self._watches = Overflows(warn), Crowding(self._plan.most_bytes, warn)
        self._meter = Meter(context.memory, built.env.num_envs * built.algorithm.unroll)
        self._rates: list[float] = []
        config, console = self._plan.config, context.console
        self._profiler = Profiler(context.folder.profile, config.profile, built.programs, console)
        board, first = context.folder.tensorboard, self._first + 1
        self._board = TensorBoardLog(
            board, config.tensorboard, purge_step=first, warn=console.warning
        )

    def run(self) -> str:
        """Iterate until the run ends; says why: goal, early stop, callback, time limit or a
        signal's name. What is raised is recorded in sessions.jsonl first.
        """
        hardware, config = self._plan.hardware, self._plan.config
        record: dict[str, Any] = {
            "hardware": hardware.name,
            "platform": hardware.platform,
            "physics": config.physics,
            "num_envs": config.num_envs,
            "first_iteration": self._first + 1,
        }
        if hardware.processes > 1:
            record["processes"] = hardware.processes
        if self._too_large:
            record[SHRUNK_FROM] = self._too_large
        if self._plan.halvings:
            record[HALVED] = list(self._plan.halvings)
        self._context.folder.open_session(record)
        self._context.console.keep(self._context.folder.console_log)
        try:
            self._open()
            ended = self._iterate()
        except BaseException as error:
            with contextlib.suppress(RunError):  # the first failure is the one to report
                self._close(_ended_by(error))
            raise
        self._close(ended)
        return ended

    def _open(self) -> None:
        """Write what describes the run, and cut metrics after the checkpoint."""
        context, folder = self._context, self._context.folder
        context.log.truncate_after(self._first)
        self._meter.begin_session(folder)
        settings = validation.to_dict(self._plan.config)
        context.checkpoints.config = settings
        folder.write_config(settings)
        folder.write_plan(self._plan.to_dict())
        texts = run_texts(self._plan.rows(), self._plan.warnings, settings)
        self._board.texts(self._first + 1, lambda: texts)
        context.wandb.start(folder.path, folder.read_id(), name_of(folder.path), settings)
        context.gpu.start()
        if context.mirror is not None:
            context.mirror.request()
        if self._rescued and self._first:
            self._save(self._first, self.whole(), {})

    def _iterate(self) -> str:
        context, config, lock = self._context, self._plan.config, self._context.folder.lock
        ended, row, env_steps = GOAL, Row(), total_steps(self.state.env_steps)
        is_owed = False  # a checkpoint
        while self._iteration < self._goal:
            self._meter.begin_iteration()
            with self._profiler.iteration() as traced:
                state, metrics = self._built.step(self.state)
                row = self._meter.row(state, metrics) | context.gpu.figures()
            self.stage = stage_index(config.curriculum, env_steps)
            self.state, self._iteration, env_steps = state, row["iteration"], row["env_steps"]
            if lock.lost:
                lock.check()
            if self._built.evaluations is not None:
                row |= self._built.evaluations.row(state, self._iteration, env_steps)
            self._report(row, traced)
            was_skipped = self._skips.feed(row)
            stopped = context.callback is not None and context.callback(row) is True
            if self._iteration == self._goal:
                break
            is_owed = is_owed or is_saved(config, self._iteration)
            if is_owed and not was_skipped:  # the run goes back to one of before the trouble
                lock.check()
                is_owed = False
                self._save(self._iteration, self.whole(), row)
            if reason := context.group.stopped(self._stop_reason(stopped, row)):
                ended = reason
                break
        self._save_last(row)
        return ended

    def _report(self, row: Row, traced: bool) -> None:
        """Log an iteration's row everywhere; a traced one's speed is not typical."""
        context = self._context
        if not traced:
            self._rates.append(row["env_steps_per_s"])
        context.log.append(row)
        context.wandb.append(row)
        self._board.append(self._iteration, row)
        shown = {**row, "goal": self._goal}
        if "tracking/velocity_error" in row:
            shown["tracking_error"] = row["tracking/velocity_error"]
        context.console.progress(shown)
        for watch in self._watches:
            watch.feed(row)

    def _stop_reason(self, stopped: bool, row: Row) -> str | None:
        """Why the run stops before its goal; None where it continues."""
        context, early_stop = self._context, self._early_stop
        if early_stop is not None and early_stop.feed(
            row["episode_return"], row["env_steps"], self.stage
        ):
            context.console.message(f"early stop: {early_stop}")
            return EARLY_STOP
        return CALLBACK if stopped else context.stop.check(self._meter.iteration_seconds)

    def whole(self) -> TrainState:
        """The state with all environments. All processes call this together."""
        return whole_state(self._context.group, self._built.whole(self.state))

    def _save(self, iteration: int, state: TrainState, row: Row) -> None:
        """Save a whole state, without its replay where that is left out."""
        if self._plan.config.save_replay == "no":
            state = state._replace(replay=())
        is_exact = resumes_exactly(self._plan.config)
        save = self._context.checkpoints.save
        save(iteration, state, row, stage=self.stage, is_exact=is_exact)

    def _save_last(self, row: Row) -> None:
        """Save the last state unless that is done, and make sure that it is on disk."""
        folder, checkpoints = self._context.folder, self._context.checkpoints
        folder.lock.check()
        state = self.whole()  # whether it is on disk, the first process alone knows
        if not checkpoints.has(self._iteration):
            self._save(self._iteration, state, row)
        if not checkpoints.has(self._iteration):
            newest = checkpoints.iterations()[-1:]
            raise RunError(
                f"iteration {self._iteration:,} could not be saved in {folder.checkpoints}; the "
                f"newest checkpoint is {f'of iteration {newest[0]:,}' if newest else 'none'}; make "
                "room there and run the same command again"
            )

    def _close(self, ended: str) -> None:
        """Record how the session ended, for TensorBoard too."""
        folder = self._context.folder
        try:
            self._record(ended)
        finally:
            last = max(self._iteration, self._first + 1)
            self._board.texts(last, lambda: sessions_text(folder.read_sessions()))
            self._board.close()

    def _record(self, ended: str) -> None:
        """Record what the session measured and why it ended."""
        context, folder = self._context, self._context.folder
        self._profiler.close()
        context.checkpoints.wait()
        if folder.lock.lost:  # the folder is another process's now
            return
        fresh_process = context.fresh_process and not self._too_large
        remember_session(
            self._built,
            context.memory,
            self._rates,
            compile_s=self._compile_s,
            fresh_process=fresh_process,
        )
        measured, compile_s = context.memory.read(), round(self._compile_s, 3)
        measured_bytes = {
            "peak": measured.peak,
            "compile_peak": context.memory.compiling,
            "source": measured.source,
        }
        outcome = {"measured_bytes": measured_bytes, "compile_s": compile_s}
        try:
            folder.write_plan({**self._plan.to_dict(), **outcome})
        finally:
            folder.close_session(
                {
                    "last_iteration": self._iteration,
                    "seconds": round(self._meter.seconds, 3),
                    "compile_s": compile_s,
                    "save_s": round(context.checkpoints.saved_s, 3),
                    "save_blocked_s": round(context.checkpoints.blocked_s, 3),
                    "ended": ended,
                }
            )


def _ended_by(error: BaseException) -> str:
    """`ended` of a session that raised."""
    if isinstance(error, UnstableError):
        return UNSTABLE
    return OUT_OF_MEMORY if is_out_of_memory(error) else FAILED
