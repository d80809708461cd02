"""A run from plan to end: the host's loop around the train step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxrl_hw import settings
from jaxrl_hw.claiming import claimed
from jaxrl_hw.config import Config
from jaxrl_hw.errors import RunError
from jaxrl_hw.hardware import xla
from jaxrl_hw.hardware.detect import refine
from jaxrl_hw.planning import Plan, make_plan
from jaxrl_hw.sessions.run_dir import RunDir
from jaxrl_hw.sessions.stop import StopRequest, parse_duration
from jaxrl_hw.storage import is_saved
from jaxrl_hw.telemetry.console import Console
from jaxrl_hw.telemetry.jsonl import MetricsLog, read_columns
from jaxrl_hw.telemetry.tensorboard import TensorBoardLog

Row = dict[str, Any]
Callback = Callable[[Row], bool | None]

FINISHED = ("goal", "early stop")
"""Of `Run.ended`: there is nothing left to do."""
_DONE = (*FINISHED, "callback")
_MIRROR_S = {True: 600.0, False: 20.0}
"""How long the end waits for the mirror: a run that is done, and one that was told to stop."""


def fit(
    config: Config,
    callback: Callback | None = None,
    console: Console | None = None,
) -> Any:
    """Train until the goal, a stop request or the time limit; continue what is in the run folder.

    Args:
      config: of the run; "auto" values are settled by `make_plan`.
      callback: called after every iteration with its row of metrics.jsonl; True stops the run,
        saved.
      console: where to say what happens; stdout by default.

    Returns:
      jaxrl_hw.Run, with `ended` telling why it stopped.

    Raises:
      UserError: the config cannot be used, the run folder holds another run, or another process
        trains in it.
      RunError: nothing could be restored, or the disk cannot be written.
    """
    with console or Console() as console, claimed(config, console) as (plan, folder):
        limit = parse_duration(plan.config.time_limit) if plan.config.time_limit else None
        with StopRequest(limit) as stop:
            session = _Session(config, plan, folder, console, stop, callback)
            return session.run()


@dataclass
class _Session:
    """One process's part of a run."""

    asked: Config
    plan: Plan
    folder: RunDir
    console: Console
    stop: StopRequest
    callback: Callback | None

    def run(self) -> Any:
        folder = self.folder
        self._import_jax()
        from jaxrl_hw.hardware.memory import MemoryWatch

        self.memory = MemoryWatch(self.plan.hardware.platform)
        self.log = MetricsLog(folder.metrics_jsonl, self.console.warning)
        with contextlib.ExitStack() as stack:
            self._start_saving(stack)
            began, state, step = time.monotonic(), *self._prepare()
            if step is None:  # nothing to do, nothing to write
                ended = "goal" if int(state.iteration) >= self.goal else "early stop"
                self._finish_mirror(ended)
                return self._result(state, ended)
            self._open(int(state.iteration))
            compiled_s = time.monotonic() - began
            self.board = TensorBoardLog(
                folder.tensorboard,
                self.plan.config.tensorboard,
                purge_step=int(state.iteration) + 1,
                warn=self.console.warning,
            )
            first = int(state.iteration)
            try:
                state, ended = self._iterate(state, step)
            except BaseException:
                with contextlib.suppress(RunError):  # the first failure is the one to tell
                    self._close(first, "failed", compiled_s)
                raise
            self._close(first, ended, compiled_s)
            self._finish_mirror(ended)
        return self._result(state, ended)

    def _start_saving(self, stack: contextlib.ExitStack) -> None:
        """Open what writes beside the training, to be closed with `stack`."""
        from jaxrl_hw.sessions.checkpoint import Checkpoints
        from jaxrl_hw.sessions.mirror import Mirror

        config, warn = self.plan.config, self.console.warning
        self.mirror: Mirror | None = None
        saves = Checkpoints(
            self.folder.checkpoints,
            config.keep,
            warn,
            keep_every=config.keep_every,
            config=settings.to_dict(config),
            on_saved=self._mirror_soon,
        )
        self.saves = stack.enter_context(saves)
        if self.plan.mirror is not None:
            renew = config.resume == "never"
            mirror = Mirror(self.folder, self.plan.mirror, saves.shelf, warn, replace=renew)
            self.mirror = stack.enter_context(mirror)

    def _mirror_soon(self) -> None:
        if self.mirror is not None:
            self.mirror.request()

    def _finish_mirror(self, ended: str) -> None:
        if self.mirror is not None:
            self.mirror.close(_MIRROR_S[ended in _DONE])

    def _import_jax(self) -> None:
        with self.console.compiling("loading jax"):
            import jax  # noqa: F401 - seconds; everything after this needs it

            from jaxrl_hw import factory  # noqa: F401 - MuJoCo, flax, optax
        xla.apply_pending()
        if self.plan.hardware.platform == "cpu":
            return
        # only an open device knows what its pool may hand out; where that is less, so is the plan
        told, known = self.plan, refine(self.plan.hardware)
        self.plan = make_plan(self.asked, known)
        if self.plan.config != told.config:
            self.console.message("the open device changes the plan:")
            self.console.plan(self.plan.rows(), self.plan.warnings)

    def _prepare(self) -> tuple[Any, Any]:
        """The state to go on from, and the compiled train step; None where nothing is left."""
        from jaxrl_hw.factory import make_algorithm, make_env
        from jaxrl_hw.loop import compile_train_step, state_form
        from jaxrl_hw.metering import plateau
        from jaxrl_hw.resuming import restore_state
        from jaxrl_hw.starting import first_state

        config = self.plan.config
        with self.console.compiling("building environments"):
            self.env = make_env(config)
            self.algorithm = make_algorithm(config, self.env)
            state = restore_state(self.plan, self.env, self.algorithm, self.saves, self.console)
        done = 0 if state is None else int(state.iteration)
        self.goal, self.plateau = config.iterations, plateau(config, self.folder, done)
        if state is not None and (done >= self.goal or (self.plateau and self.plateau.is_over)):
            return state, None
        if state is None and config.init_from:  # before the compiler: it may be refused
            state = first_state(self.env, self.algorithm, config, self.console)
        with self.console.compiling("compiling train step"):
            form = state_form(self.env, self.algorithm)
            step = compile_train_step(self.env, self.algorithm, form)
            if state is None:
                state = first_state(self.env, self.algorithm, config, self.console)
        return state, step

    def _open(self, iteration: int) -> None:
        """Write what describes the run, and cut metrics past the checkpoint."""
        plan = self.plan
        self.folder.open_session(
            {
                "hardware": plan.hardware.name,
                "platform": plan.hardware.platform,
                "physics": plan.config.physics,
                "num_envs": plan.config.num_envs,
                "first_iteration": iteration + 1,
            }
        )
        self.log.truncate_after(iteration)
        self.folder.write_config(settings.to_dict(plan.config))
        self.folder.write_plan(plan.to_dict())
        self._mirror_soon()

    def _iterate(self, state: Any, step: Any) -> tuple[Any, str]:
        from jaxrl_hw.metering import Meter, refuse_nonfinite

        config, lock = self.plan.config, self.folder.lock
        iteration, ended, row = int(state.iteration), "goal", {}
        samples = self.env.num_envs * self.algorithm.unroll
        self.meter = Meter(self.folder, self.memory, samples)
        while iteration < config.iterations:
            self.meter.begin()
            state, metrics = step(state)
            row = self.meter.row(state, metrics)
            iteration += 1
            refuse_nonfinite(row)
            if lock.lost:
                lock.check()
            self.log.append(row)
            self.board.append(iteration, row)
            self.console.progress(self._shown(row))
            asked = self.callback is not None and self.callback(row) is True
            if is_saved(config, iteration) and iteration < config.iterations:
                lock.check()
                self.saves.save(iteration, state, row)
            reason = "callback" if asked else self.stop.check(self.meter.iteration_seconds)
            if self.plateau is not None and self.plateau.feed(row["episode_return"]):
                self.console.message(f"early stop: {self.plateau}")
                reason = "early stop"
            if reason and iteration < config.iterations:
                ended = reason
                break
        self._save_last(iteration, state, row)
        return state, ended

    def _save_last(self, iteration: int, state: Any, row: Row) -> None:
        """Save, unless that is done, and make sure that it is on disk."""
        self.folder.lock.check()
        if not self.saves.has(iteration):
            self.saves.save(iteration, state, row)
        if not self.saves.has(iteration):
            there = self.saves.iterations()
            newest = f"of iteration {there[-1]:,}" if there else "none"
            raise RunError(
                f"iteration {iteration:,} could not be saved in {self.folder.checkpoints}; the "
                f"newest checkpoint is {newest}; make room there and run the same command again"
            )

    def _shown(self, row: Row) -> Row:
        shown = {**row, "goal": self.plan.config.iterations}
        if "tracking/velocity_error" in row:
            shown["tracking_error"] = row["tracking/velocity_error"]
        return shown

    def _close(self, first: int, ended: str, compiled_s: float) -> None:
        self.board.close()
        self.saves.wait()
        if self.folder.lock.lost:  # the folder is another process's now
            return
        last = 0
        if self.folder.metrics_jsonl.exists():
            rows = read_columns(self.folder.metrics_jsonl).get("iteration", [])
            last = rows[-1] if rows else 0
        measured = self.memory.read()
        try:
            self.folder.write_plan(
                {
                    **self.plan.to_dict(),
                    "measured_bytes": {"peak": measured.peak, "source": measured.source},
                    "compile_s": round(compiled_s, 3),
                }
            )
        finally:
            self.folder.close_session(
                {
                    "last_iteration": max(last, first),
                    "seconds": round(self.meter.seconds, 3),
                    "compile_s": round(compiled_s, 3),
                    "save_s": round(self.saves.saved_s, 3),
                    "save_blocked_s": round(self.saves.blocked_s, 3),
                    "ended": ended,
                }
            )

    def _result(self, state: Any, ended: str) -> Any:
        from jaxrl_hw.run import Run, make_policy

        metrics = {}
        if self.folder.metrics_jsonl.exists():
            metrics = read_columns(self.folder.metrics_jsonl)
        policy = make_policy(self.algorithm, state)
        run = Run(self.plan.config, self.folder.path, metrics, state, policy, ended)
        self.console.finish(_closing(run, self.plan.config.iterations))
        return run


def _closing(run: Any, goal: int) -> str:
    at = f"iteration {run.iteration:,} of {goal:,}"
    if run.ended in FINISHED:
        early = "" if run.ended == "goal" else " (early stop)"
        return f"done{early}: {at}, saved in {run.folder}"
    return f"stopped ({run.ended}) at {at}, saved in {run.folder}; run the same command to go on"
