"""Iterations on one built step, with what happens beside each: the part of a run that is a line of
sessions.jsonl."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field

from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.errors import RunError
from jaxrl_hw.hardware.memory import MemoryWatch
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.jsonl import MetricsLog, read_columns
from jaxrl_hw.loggers.tensorboard import TensorBoardLog
from jaxrl_hw.planning.disk_space import is_saved
from jaxrl_hw.planning.fitted_size import SHRUNK_FROM
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training.build import Built, learned
from jaxrl_hw.training.early_stop import EarlyStop
from jaxrl_hw.training.exhaustion import is_exhausted
from jaxrl_hw.training.metrics import Meter, Row, refuse_nonfinite, stage_of
from jaxrl_hw.training.stop_request import StopRequest
from jaxrl_hw.types import TrainState

FAILED, OUT_OF_MEMORY = "failed", "out of memory"
"""What a session's line says of an exception; after the second the next line goes on with less."""

_CROWDED = 0.95
"""Share of the memory above which the user is told."""


@dataclass
class Desk:
    """What every part of a session works with."""

    folder: RunDir
    console: Console
    stop: StopRequest
    saves: Checkpoints
    memory: MemoryWatch
    log: MetricsLog
    plateau: EarlyStop | None
    callback: Callable[[Row], bool | None] | None
    changed: Callable[[], None]
    """Called when a file of the run folder has changed that the mirror wants."""
    fresh: bool
    """The process held nothing of the user's before the run."""
    shrunk_from: list[dict[str, int]]
    """Sizes that memory did not do for in this session."""


@dataclass
class Part:
    """Iterations with one number of environments."""

    desk: Desk
    built: Built
    state: TrainState
    """The last one that is whole: before the step that is under way."""
    compile_s: float
    rescued: bool = False
    """Memory did not do for the part before: what is left of it is in this state alone."""
    rates: list[float] = field(default_factory=list)
    _crowded: bool = False

    @property
    def plan(self) -> Plan:
        return self.built.plan

    def run(self) -> str:
        """Iterate until something ends it; says what: goal, early stop, callback, time limit, a
        signal's name. Whatever is raised is told in sessions.jsonl first.
        """
        first = int(self.state.iteration)
        self._open(first)
        if self.rescued and first:
            self.desk.saves.save(first, self.state, {}, stage=stage_of(self.plan.config, first))
        try:
            ended = self._iterate()
        except BaseException as error:
            with contextlib.suppress(RunError):  # the first failure is the one to tell
                self._close(first, OUT_OF_MEMORY if is_exhausted(error) else FAILED)
            raise
        self._close(first, ended)
        return ended

    def _open(self, iteration: int) -> None:
        """Write what describes the run, and cut metrics past the checkpoint."""
        plan, folder = self.plan, self.desk.folder
        gave_up = {SHRUNK_FROM: list(self.desk.shrunk_from)} if self.desk.shrunk_from else {}
        folder.open_session(
            {
                "hardware": plan.hardware.name,
                "platform": plan.hardware.platform,
                "physics": plan.config.physics,
                "num_envs": plan.config.num_envs,
                "first_iteration": iteration + 1,
                **gave_up,
            }
        )
        self.desk.log.truncate_after(iteration)
        self.desk.saves.config = validation.to_dict(plan.config)
        folder.write_config(self.desk.saves.config)
        folder.write_plan(plan.to_dict())
        self.desk.changed()
        self._board = TensorBoardLog(
            folder.tensorboard,
            plan.config.tensorboard,
            purge_step=iteration + 1,
            warn=self.desk.console.warning,
        )

    def _iterate(self) -> str:
        desk, config, lock = self.desk, self.plan.config, self.desk.folder.lock
        iteration, ended, row = int(self.state.iteration), "goal", Row()
        samples = self.built.env.num_envs * self.built.algorithm.unroll
        self._meter = Meter(desk.folder, desk.memory, samples)
        while iteration < config.iterations:
            self._meter.begin()
            state, metrics = self.built.step(self.state)
            row = self._meter.row(state, metrics)
            refuse_nonfinite(row)
            self.state, iteration = state, iteration + 1
            if lock.lost:
                lock.check()
            self._tell(iteration, row)
            asked = desk.callback is not None and desk.callback(row) is True
            if is_saved(config, iteration) and iteration < config.iterations:
                lock.check()
                desk.saves.save(iteration, state, row, stage=stage_of(config, iteration))
            reason = "callback" if asked else desk.stop.check(self._meter.iteration_seconds)
            if desk.plateau is not None and desk.plateau.feed(row["episode_return"]):
                desk.console.message(f"early stop: {desk.plateau}")
                reason = "early stop"
            if reason and iteration < config.iterations:
                ended = reason
                break
        self._save_last(iteration, row)
        return ended

    def _tell(self, iteration: int, row: Row) -> None:
        """An iteration's row, to everyone who wants it."""
        self.rates.append(row["env_steps_per_s"])
        self.desk.log.append(row)
        self._board.append(iteration, row)
        shown = {**row, "goal": self.plan.config.iterations}
        if "tracking/velocity_error" in row:
            shown["tracking_error"] = row["tracking/velocity_error"]
        self.desk.console.progress(shown)
        most, used = self.plan.most_bytes, row["memory_bytes"] or 0
        if most and used > _CROWDED * most and not self._crowded:
            self._crowded = True
            self.desk.console.warning(
                f"{formats.size(used)} of the {formats.size(most)} that the run may use are taken"
            )

    def _save_last(self, iteration: int, row: Row) -> None:
        """Save, unless that is done, and make sure that it is on disk."""
        folder, saves = self.desk.folder, self.desk.saves
        folder.lock.check()
        if not saves.has(iteration):
            saves.save(iteration, self.state, row, stage=stage_of(self.plan.config, iteration))
        if not saves.has(iteration):
            there = saves.iterations()
            newest = f"of iteration {there[-1]:,}" if there else "none"
            raise RunError(
                f"iteration {iteration:,} could not be saved in {folder.checkpoints}; the "
                f"newest checkpoint is {newest}; make room there and run the same command again"
            )

    def _close(self, first: int, ended: str) -> None:
        self._board.close()
        desk, folder = self.desk, self.desk.folder
        desk.saves.wait()
        if folder.lock.lost:  # the folder is another process's now
            return
        last = 0
        if folder.metrics_jsonl.exists():
            rows = read_columns(folder.metrics_jsonl).get("iteration", [])
            last = rows[-1] if rows else 0
        measured = desk.memory.read()
        learned(self.built, desk.memory, self.rates, desk.fresh)
        bytes_measured = {
            "peak": measured.peak,
            "compile_peak": desk.memory.compiling,
            "source": measured.source,
        }
        told = {"measured_bytes": bytes_measured, "compile_s": round(self.compile_s, 3)}
        try:
            folder.write_plan({**self.plan.to_dict(), **told})
        finally:
            folder.close_session(
                {
                    "last_iteration": max(last, first),
                    "seconds": round(self._meter.seconds, 3),
                    "compile_s": round(self.compile_s, 3),
                    "save_s": round(desk.saves.saved_s, 3),
                    "save_blocked_s": round(desk.saves.blocked_s, 3),
                    "ended": ended,
                }
            )
