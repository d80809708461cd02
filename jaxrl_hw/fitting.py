"""A run from plan to end: the host's loop around the train step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jaxrl_hw import settings
from jaxrl_hw.config import Config
from jaxrl_hw.errors import RunError
from jaxrl_hw.hardware import xla
from jaxrl_hw.hardware.detect import refine
from jaxrl_hw.origins import move_aside
from jaxrl_hw.planning import Plan, make_plan
from jaxrl_hw.sessions.run_dir import RunDir
from jaxrl_hw.sessions.stop import StopRequest, parse_duration
from jaxrl_hw.telemetry.console import Console
from jaxrl_hw.telemetry.jsonl import MetricsLog, read_columns
from jaxrl_hw.telemetry.tensorboard import TensorBoardLog

Row = dict[str, Any]
Callback = Callable[[Row], bool | None]


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
      UserError: the config cannot be used, or the run folder holds another run.
      RunError: nothing could be restored, or the disk cannot be written.
    """
    with console or Console() as console:
        plan = make_plan(config)
        folder = RunDir(plan.folder)
        if plan.config.resume == "never":
            move_aside(folder, console)
        folder.prepare()
        console.plan(plan.rows(), plan.warnings)
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
        config, folder = self.plan.config, self.folder
        self._import_jax()
        from jaxrl_hw.hardware.memory import MemoryWatch
        from jaxrl_hw.sessions.checkpoint import Checkpoints

        self.memory = MemoryWatch(self.plan.hardware.platform)
        self.log = MetricsLog(folder.metrics_jsonl, self.console.warning)
        with Checkpoints(folder.checkpoints, config.keep, self.console.warning) as self.saves:
            began, state, step = time.monotonic(), *self._prepare()
            if step is None:  # the goal is reached already: nothing to do, nothing to write
                return self._result(state, "goal")
            self._open(int(state.iteration))
            compiled_s = time.monotonic() - began
            self.board = TensorBoardLog(
                folder.tensorboard,
                config.tensorboard,
                purge_step=int(state.iteration) + 1,
                warn=self.console.warning,
            )
            ended = "failed"
            first = int(state.iteration)
            try:
                state, ended = self._iterate(state, step)
            finally:
                self.board.close()
                self._close(first, ended, compiled_s)
        return self._result(state, ended)

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
        from jaxrl_hw.resuming import restore_state
        from jaxrl_hw.starting import first_state

        config = self.plan.config
        with self.console.compiling("building environments"):
            self.env = make_env(config)
            self.algorithm = make_algorithm(config, self.env)
            state = restore_state(self.plan, self.env, self.algorithm, self.saves, self.console)
        if state is not None and int(state.iteration) >= config.iterations:
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

    def _iterate(self, state: Any, step: Any) -> tuple[Any, str]:
        config = self.plan.config
        iteration, saved = int(state.iteration), int(state.iteration)
        ended, row, self.session_began = "goal", {}, time.monotonic()
        before = self._wall_before()
        while iteration < config.iterations:
            began = time.monotonic()
            state, metrics = step(state)
            row = self._row(state, metrics, began, before)
            iteration += 1
            self._refuse_nonfinite(row)
            self.log.append(row)
            self.board.append(iteration, row)
            self.console.progress(self._shown(row))
            asked = self.callback is not None and self.callback(row) is True
            if iteration % config.save_every == 0 and iteration < config.iterations:
                self.saves.save(iteration, state, row)
                saved = iteration
            reason = "callback" if asked else self.stop.check(time.monotonic() - began)
            if reason and iteration < config.iterations:
                ended = reason
                break
        if iteration > saved:
            self.saves.save(iteration, state, row)
        self.saves.wait()
        return state, ended

    def _refuse_nonfinite(self, row: Row) -> None:
        """Stop before a ruined learner is saved over a good one."""
        ruined = [k for k in ("loss/policy", "loss/value") if not math.isfinite(row.get(k, 0.0))]
        if ruined:
            raise RunError(
                f"{' and '.join(ruined)} not finite at iteration {row['iteration']}; the last "
                "checkpoint is from before: try a lower --ppo.learning-rate"
            )

    def _wall_before(self) -> float:
        """Training seconds of earlier sessions, so that wall_s goes on."""
        if not self.folder.metrics_jsonl.exists():
            return 0.0
        walls = read_columns(self.folder.metrics_jsonl).get("wall_s", [])
        return float(walls[-1] or 0.0) if walls else 0.0

    def _row(self, state: Any, metrics: Any, began: float, before: float) -> Row:
        """The iteration's row of metrics.jsonl; waits for the device."""
        import jax

        from jaxrl_hw.loop import total_steps

        jax.block_until_ready(state)
        seconds = time.monotonic() - began
        values = {name: value.item() for name, value in jax.device_get(metrics).items()}
        count = self.env.num_envs * self.algorithm.unroll
        return {
            "iteration": int(state.iteration),
            "env_steps": total_steps(state.env_steps),
            "wall_s": before + time.monotonic() - self.session_began,
            "iterations_per_min": 60.0 / seconds,
            "env_steps_per_s": count / seconds,
            **values,
            "memory_bytes": self.memory.read().peak,
        }

    def _shown(self, row: Row) -> Row:
        shown = {**row, "goal": self.plan.config.iterations}
        if "tracking/velocity_error" in row:
            shown["tracking_error"] = row["tracking/velocity_error"]
        return shown

    def _close(self, first: int, ended: str, compiled_s: float) -> None:
        last = 0
        if self.folder.metrics_jsonl.exists():
            rows = read_columns(self.folder.metrics_jsonl).get("iteration", [])
            last = rows[-1] if rows else 0
        measured = self.memory.read()
        self.folder.close_session(
            {
                "last_iteration": max(last, first),
                "seconds": round(time.monotonic() - self.session_began, 3),
                "compile_s": round(compiled_s, 3),
                "ended": ended,
            }
        )
        self.folder.write_plan(
            {
                **self.plan.to_dict(),
                "measured_bytes": {"peak": measured.peak, "source": measured.source},
                "compile_s": round(compiled_s, 3),
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
    if run.ended == "goal":
        return f"done: {at}, saved in {run.folder}"
    return f"stopped ({run.ended}) at {at}, saved in {run.folder}; run the same command to go on"
