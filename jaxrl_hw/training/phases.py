"""The phases of a run after its folder is claimed and jax is loaded."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from jaxrl_hw.checkpointing import orbax_io
from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.description import Arrays, Meta
from jaxrl_hw.checkpointing.mirror import Mirror
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.hardware import garbage
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning.ladder import size_of
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training.build import Built, build_step
from jaxrl_hw.training.evaluations import Evaluations
from jaxrl_hw.training.group import ElsewhereError, Group
from jaxrl_hw.training.init_from import open_source
from jaxrl_hw.training.instability import UnstableError, calmer_plan
from jaxrl_hw.training.layout import layout_of, local
from jaxrl_hw.training.metrics import past_early_stop
from jaxrl_hw.training.oom import is_out_of_memory, is_whole, smaller_plan
from jaxrl_hw.training.resume import restore_state
from jaxrl_hw.training.run import Run, trained
from jaxrl_hw.training.session import Session, TrainContext
from jaxrl_hw.training.several import as_settled
from jaxrl_hw.training.shared_state import state_of_first
from jaxrl_hw.training.stopping import CALLBACK, EARLY_STOP, FINISHED, GOAL
from jaxrl_hw.training.train_step import total_steps, with_fresh_envs
from jaxrl_hw.types import Algorithm, TrainState

_MIRROR_DONE_S, _MIRROR_STOPPED_S = 600.0, 20.0
"""How long the end waits for the mirror: of a run that is done, and of one that was stopped."""


_T = TypeVar("_T")


def open_checkpoints(
    plan: Plan, folder: RunDir, console: Console, group: Group, stack: ExitStack
) -> tuple[Checkpoints, Mirror | None]:
    """What saves beside the training; closing the stack finishes the writing.

    Of several processes the first one alone writes arrays.
    """
    config, mirror = plan.config, None
    checkpoints = Checkpoints(
        folder.checkpoints,
        config.keep,
        console.warning,
        keep_every=config.keep_every,
        config=validation.to_dict(config),
        on_saved=lambda: mirror.request() if mirror is not None else None,
        write=orbax_io.write if group.is_first else _write_nothing,
    )
    stack.enter_context(checkpoints)
    if plan.mirror is not None:
        renew = config.resume == "never"
        mirror = Mirror(folder, plan.mirror, checkpoints.store, console.warning, replace=renew)
        stack.enter_context(mirror)
    return checkpoints, mirror


class Phases:
    """Restore, build, iterate and close: one process's part of a run.

    Where memory runs out in one of them, it is repeated with a smaller plan (`oom.smaller_plan`).
    """

    def __init__(self, context: TrainContext, plan: Plan) -> None:
        self._context, self._plan = context, plan
        self._made: tuple[Config, Env, Algorithm] | None = None
        self._items: dict[str, int] | None = None  # bytes of the last build
        self._too_large: list[dict[str, int]] = []
        self._may_resize = context.config.num_envs == "auto"

    def run(self) -> Run:
        """Do what is left of the run. Raises as `fit` does."""
        state = self._until_it_fits(self._restore, None)
        ended: str | None = self._context.group.decided(self._ended_before(state))
        if ended is None:
            state, ended = self._iterate(state)
        else:
            state = state_of_first(self._context.group, state, *self._environments())
        return self._close(state, ended)

    def _restore(self, _: TrainState | None = None) -> TrainState | None:
        """The state to continue from; None for a new run."""
        context = self._context
        with context.console.compiling("building environments"):
            made = self._environments()
            return restore_state(self._plan, *made, context.checkpoints, context.console)

    def _ended_before(self, state: TrainState | None) -> str | None:
        """Why there is nothing to do; None where there is."""
        if state is None:
            return None
        done = int(state.iteration)
        if done >= goal_iteration(self._plan.config, done, total_steps(state.env_steps)):
            return GOAL
        early_stop = past_early_stop(self._plan.config, self._context.folder, done)
        return EARLY_STOP if early_stop and early_stop.is_over else None

    def _iterate(self, state: TrainState | None) -> tuple[TrainState, str]:
        """Train in one session; where memory runs out in it, a smaller one follows."""
        stage: int | None = None
        while True:
            began = time.monotonic()
            built, state = self._until_it_fits(self._build, state)
            session = Session(
                self._context,
                built,
                state,
                compile_s=time.monotonic() - began,
                too_large=self._too_large,
                rescued_stage=stage,
            )
            state = None  # the session goes on from it, and its first learner is let go
            is_unstable = False
            try:
                ended = session.run()
                return session.whole(), ended
            except UnstableError as error:
                self._calm(error)
                is_unstable = True
            except Exception as error:
                if not self._shrink(error, session.state):
                    raise
            # what a session leaves behind is deleted: its memory is needed for what follows
            if is_unstable:
                del built, session, state
                state, stage = self._newest(), None
            else:
                state, stage = self._rescued(session.state), session.stage
                del built, session

    def _build(self, state: TrainState | None) -> tuple[Built, TrainState]:
        """Compile the train step; the state to begin with, on its environments."""
        context, config = self._context, self._plan.config
        env, algorithm = self._environments()
        source = None
        if state is None:  # before the compiler: it may be refused
            source = open_source(config, env, algorithm, context.console)
        may_resize = context.group.decided(self._may_resize)
        with context.console.compiling("compiling train step"), garbage.seldom():
            built = self._built(env, algorithm, may_resize)
            made = built.env, built.algorithm
            if context.group.is_first and state is None:
                state = context.parts.first_state(*made, config.seed, source)
            elif state is not None and (state.env_state is None or built.env is not env):
                state = with_fresh_envs(state, *made, config.seed)
            state = state_of_first(context.group, state, *made)
            if layout := layout_of(built.plan.config):
                state = layout.place(state)
        settled = built.plan.config
        evaluations = Evaluations(
            settled, built.env, built.algorithm, context.console, whole=built.whole
        )
        evaluations.compile(state)
        state = built.place(state)
        context.memory.begin()
        held = context.memory.held
        self._plan = built.plan if held is None else built.plan.with_resident(held)
        self._made = (self._plan.config, built.env, built.algorithm)
        self._items = built.items
        return built._replace(plan=self._plan, evaluations=evaluations), state

    def _built(self, env: Env, algorithm: Algorithm, may_resize: bool) -> Built:
        """A train step for as many environments as fit everywhere by the compiler's figures."""
        context = self._context
        build = partial(context.build or build_step, console=context.console)
        built = build(self._plan, env, algorithm, may_resize=may_resize)
        fewest = min(context.group.agreed(built.env.num_envs))
        if built.env.num_envs == fewest:
            return built
        plan = built.plan.resized(replace(built.plan.config, num_envs=fewest))
        return build(plan, *context.parts.environments(plan.config), may_resize=False)

    def _close(self, state: TrainState, ended: str) -> Run:
        context, config = self._context, self._plan.config
        if context.mirror is not None:
            done = ended in (*FINISHED, CALLBACK)
            context.mirror.close(_MIRROR_DONE_S if done else _MIRROR_STOPPED_S)
        run = trained(config, *self._environments(), state, context.folder, ended)
        context.console.finish(_summary(run))
        return run

    def _environments(self) -> tuple[Env, Algorithm]:
        """Those of the plan's config."""
        config = self._plan.config
        if self._made is None or self._made[0] != config:
            self._made = (config, *self._context.parts.environments(config))
        return self._made[1:]

    def _until_it_fits(
        self, phase: Callable[[TrainState | None], _T], state: TrainState | None
    ) -> _T:
        while True:
            try:
                result = phase(state)
                self._context.group.agreed(None)
                return result
            except Exception as error:
                if not self._shrink(error, state):
                    raise
            # outside of the handler, whose traceback keeps the failed phase's arrays alive
            state = None if state is None else self._rescued(state)

    def _shrink(self, error: Exception, state: TrainState | None) -> bool:
        """Plan a smaller run after an error; False where the error is not about memory."""
        group, message = self._context.group, ""
        if not is_out_of_memory(error):
            return False
        if not isinstance(error, ElsewhereError):
            group.report_full()
        self._too_large.append(size_of(self._plan.config))
        self._may_resize = False
        if group.is_first:
            self._plan, message = smaller_plan(self._plan, error, state, self._items)
        self._plan = self._plan.resized(as_settled(group, self._plan.config))
        self._context.console.warning(message)
        self._items = None
        return True

    def _calm(self, error: UnstableError) -> None:
        """Plan the rest of the run with half the learning rate. Raises RunError where that does not
        help."""
        group, message = self._context.group, ""
        if group.is_first:
            self._plan, message = calmer_plan(self._plan, error)
        self._plan = self._plan.resized(as_settled(group, self._plan.config))
        self._context.console.warning(message)
        self._items = None
        self._may_resize = False

    def _rescued(self, state: TrainState) -> TrainState | None:
        """The learner of a failed step's argument, else the newest checkpoint."""
        if not self._context.group.is_first:
            return None
        if is_whole(state):
            return local(state._replace(env_state=None, replay=()))
        self._context.console.warning("the learner is lost too")
        return self._newest()

    def _newest(self) -> TrainState | None:
        """The state of the newest checkpoint; None without one, and in all processes but the
        first."""
        if not self._context.group.is_first:
            return None
        self._context.checkpoints.wait()
        saved = self._context.folder.newest_checkpoint()
        self._context.console.message(f"back to iteration {saved:,}")
        self._plan = replace(self._plan, iterations_done=saved)
        return self._restore()


def _write_nothing(folder: Path, arrays: Arrays, meta: Meta) -> None:
    folder.mkdir()


def _summary(run: Run) -> str:
    steps = total_steps(run.state.env_steps)
    goal = goal_iteration(run.config, run.iteration, steps)
    at = f"iteration {run.iteration:,} of {goal:,} ({steps:,} env steps), saved in {run.folder}"
    if run.ended in FINISHED:
        return f"done{'' if run.ended == GOAL else f' ({run.ended})'}: {at}"
    return f"stopped ({run.ended}) at {at}; run the same command to continue"
