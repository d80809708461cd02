"""A run from plan to end: one process's part of it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_duration
from jaxrl_hw.hardware import malloc, xla
from jaxrl_hw.hardware.detect import refine
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.loggers.jsonl import MetricsLog, read_columns
from jaxrl_hw.planning.fitted_size import size_of
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.planning.planner import make_plan
from jaxrl_hw.training.claim import claimed
from jaxrl_hw.training.stop_request import StopRequest

Row = dict[str, Any]
Callback = Callable[[Row], bool | None]

_GOAL, _EARLY = "goal", "early stop"
FINISHED = (_GOAL, _EARLY)
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
      RunError: nothing could be restored, the disk cannot be written, or the memory does not do for
        the least there is.
    """
    fresh = "jax" not in sys.modules
    with console or Console() as console, claimed(config, console) as (plan, folder):
        limit = parse_duration(plan.config.time_limit) if plan.config.time_limit else None
        with StopRequest(limit) as stop:
            session = _Session(config, plan, folder, console, stop, callback, fresh)
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
    fresh: bool
    built: Any = None  # build.Built: what the last part ran on
    shrunk_from: list[dict[str, int]] = field(default_factory=list)

    def run(self) -> Any:
        self._import_jax()
        from jaxrl_hw.hardware.memory import MemoryWatch
        from jaxrl_hw.training.session import Desk

        with contextlib.ExitStack() as stack:
            self._start_saving(stack)
            memory = MemoryWatch(self.plan.hardware.platform)
            state = self._surviving(self._restored, None)
            if self._is_over(state):  # nothing to do, nothing to write
                ended = _GOAL if int(state.iteration) >= self.plan.config.iterations else _EARLY
            else:
                self.desk = Desk(
                    folder=self.folder,
                    console=self.console,
                    stop=self.stop,
                    saves=self.saves,
                    memory=memory,
                    log=MetricsLog(self.folder.metrics_jsonl, self.console.warning),
                    plateau=self.plateau,
                    callback=self.callback,
                    changed=self._mirror_soon,
                    fresh=self.fresh,
                    shrunk_from=self.shrunk_from,
                )
                state, ended = self._train(state)
            self._finish_mirror(ended)
        return self._result(state, ended)

    def _import_jax(self) -> None:
        with self.console.compiling("loading jax"):
            import jax  # noqa: F401 - seconds; everything after this needs it

            from jaxrl_hw.config import factory  # noqa: F401 - MuJoCo, flax, optax
        xla.apply_pending()
        if self.plan.hardware.platform == "cpu":
            malloc.map_large()
            return
        # only an open device knows what its pool may hand out; where that is less, so is the plan
        told, known = self.plan, refine(self.plan.hardware)
        self.plan = make_plan(self.asked, known)
        if self.plan.config != told.config:
            self.console.message("the open device changes the plan:")
            self.console.plan(self.plan.rows(), self.plan.warnings)

    def _start_saving(self, stack: contextlib.ExitStack) -> None:
        """Open what writes beside the training, to be closed with `stack`."""
        from jaxrl_hw.checkpointing.checkpoint import Checkpoints
        from jaxrl_hw.checkpointing.mirror import Mirror

        config, warn = self.plan.config, self.console.warning
        self.mirror: Mirror | None = None
        saves = Checkpoints(
            self.folder.checkpoints,
            config.keep,
            warn,
            keep_every=config.keep_every,
            config=validation.to_dict(config),
            on_saved=self._mirror_soon,
        )
        self.saves = stack.enter_context(saves)
        if self.plan.mirror is not None:
            renew = config.resume == "never"
            mirror = Mirror(self.folder, self.plan.mirror, saves.store, warn, replace=renew)
            self.mirror = stack.enter_context(mirror)

    def _mirror_soon(self) -> None:
        if self.mirror is not None:
            self.mirror.request()

    def _finish_mirror(self, ended: str) -> None:
        if self.mirror is not None:
            self.mirror.close(_MIRROR_S[ended in _DONE])

    def _restored(self, _: Any) -> Any:
        """The state to go on from, None for a new run."""
        from jaxrl_hw.training.build import environments
        from jaxrl_hw.training.metrics import plateau
        from jaxrl_hw.training.resume import restore_state

        with self.console.compiling("building environments"):
            env, algorithm = environments(self.plan.config)
            state = restore_state(self.plan, env, algorithm, self.saves, self.console)
        done = 0 if state is None else int(state.iteration)
        self.plateau = plateau(self.plan.config, self.folder, done)
        self._use(self.plan.config, env, algorithm)
        return state

    def _use(self, config: Config, env: Any, algorithm: Any) -> None:
        """Environments and algorithm, with the config that they were made for."""
        self.env, self.algorithm, self.made_for = env, algorithm, config

    def _is_over(self, state: Any) -> bool:
        if state is None:
            return False
        reached = int(state.iteration) >= self.plan.config.iterations
        return reached or bool(self.plateau and self.plateau.is_over)

    def _train(self, state: Any) -> tuple[Any, str]:
        """Parts one after the other: the next begins where memory did not do for the last."""
        from jaxrl_hw.training.session import Part

        rescued = False
        while True:
            began = time.monotonic()
            state = self._surviving(self._compiled, state)
            part = Part(self.desk, self.built, state, time.monotonic() - began, rescued)
            try:
                ended = part.run()
                return part.state, ended
            except Exception as error:
                if not self._shrink(error, part.state):
                    raise
            state, rescued = self._whole(part.state), True

    def _surviving(self, prepare: Callable[[Any], Any], state: Any) -> Any:
        """prepare(state), with fewer environments where memory does not do."""
        while True:
            try:
                return prepare(state)
            except Exception as error:
                if not self._shrink(error, state):
                    raise
            state = state if state is None else self._whole(state)

    def _shrink(self, error: Exception, state: Any) -> bool:
        """Plan with less after an error; False where it is not about memory."""
        from jaxrl_hw.training.oom import smaller

        items = None if self.built is None else self.built.items
        found = smaller(self.plan, error, state, items)
        if found is None:
            return False
        self.shrunk_from.append(size_of(self.plan.config))
        self.plan, said = found
        self.console.warning(said)
        self.built, self.fresh = None, False
        return True

    def _whole(self, state: Any) -> Any:
        """What is left of a state after a step that failed: its learner, or a checkpoint."""
        from jaxrl_hw.training.build import environments
        from jaxrl_hw.training.oom import is_whole
        from jaxrl_hw.training.resume import restore_state

        if is_whole(state):
            return state._replace(env_state=None)
        self.saves.wait()
        saved = self.folder.newest_checkpoint()
        self.console.warning(f"the learner was lost as well: back to iteration {saved:,}")
        env, algorithm = environments(self.plan.config)
        plan = replace(self.plan, iterations_done=saved)
        return restore_state(plan, env, algorithm, self.saves, self.console)

    def _compiled(self, state: Any) -> Any:
        """Compile the train step; the state to begin with, on its environments."""
        from jaxrl_hw.training import build
        from jaxrl_hw.training.train_step import with_fresh_envs
        from jaxrl_hw.training.warm_start import first_state

        config, told = self.plan.config, self.console
        if self.made_for != config:  # fewer than there were
            self._use(config, *build.environments(config))
        if state is None and config.init_from:  # before the compiler: it may be refused
            state = first_state(self.env, self.algorithm, config, told)
        ours = self.asked.num_envs == "auto" and not self.plan.iterations_done
        with told.compiling("compiling train step"):
            built = build.build(self.plan, self.env, self.algorithm, may_resize=ours, console=told)
            if state is None:
                state = first_state(built.env, built.algorithm, built.plan.config, told)
            elif state.env_state is None or built.env is not self.env:
                state = with_fresh_envs(state, built.env, built.algorithm, config.seed)
        self._use(built.plan.config, built.env, built.algorithm)
        self.desk.memory.begin()
        held = self.desk.memory.held
        self.plan = built.plan if held is None else built.plan.with_resident(held)
        self.built = built._replace(plan=self.plan)
        self.desk.fresh = self.fresh
        return state

    def _result(self, state: Any, ended: str) -> Any:
        from jaxrl_hw.training.run import Run, make_policy

        metrics = {}
        if self.folder.metrics_jsonl.exists():
            metrics = read_columns(self.folder.metrics_jsonl)
        policy = make_policy(self.env, self.algorithm, state)
        run = Run(self.plan.config, self.folder.path, metrics, state, policy, ended)
        self.console.finish(_closing(run, self.plan.config.iterations))
        return run


def _closing(run: Any, goal: int) -> str:
    at = f"iteration {run.iteration:,} of {goal:,}"
    if run.ended in FINISHED:
        early = "" if run.ended == _GOAL else " (early stop)"
        return f"done{early}: {at}, saved in {run.folder}"
    return f"stopped ({run.ended}) at {at}, saved in {run.folder}; run the same command to go on"
