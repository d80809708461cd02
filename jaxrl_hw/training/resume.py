"""The state that a run goes on from."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.mirror import replace_damaged
from jaxrl_hw.checkpointing.restore import AllDamagedError, restore_from
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning.continuation import RESUME_WORDS
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training.run import form_for, saved_num_envs
from jaxrl_hw.training.train_step import with_fresh_envs
from jaxrl_hw.types import Algorithm, TrainState

Restore = Callable[[Any], Any]
"""A function from the form of a state to (state, iteration); None where nothing is saved."""


def restore_state(
    plan: Plan, env: Env, algorithm: Algorithm, saves: Checkpoints, console: Console
) -> TrainState | None:
    """The newest whole checkpoint of the plan's run, or the one it starts from; None without one.

    Where every checkpoint in the run's folder is damaged, they are replaced by the mirror's.

    Raises:
      UserError: a checkpoint of another form, or a newer version's.
      RunError: every checkpoint is damaged, in the mirror as well.
    """
    resume = plan.config.resume
    if plan.iterations_done:
        try:
            return _read(plan, env, algorithm, plan.folder, saves.restore, console)
        except AllDamagedError:
            if plan.mirror is None or not plan.mirror.newest_checkpoint():
                raise
            mirror = plan.mirror
        _repair(plan, mirror, env, algorithm, saves, console)
        return _read(plan, env, algorithm, plan.folder, saves.restore, console)
    if resume in RESUME_WORDS:
        return None
    path = Path(resume).expanduser()

    def named(form: Any) -> Any:
        return restore_from(path, form, console.warning)

    state = _read(plan, env, algorithm, path, named, console)
    if state is not None:
        console.message(f"starts from iteration {int(state.iteration)} of {path}")
    return state


def _repair(
    plan: Plan,
    mirror: RunDir,
    env: Env,
    algorithm: Algorithm,
    saves: Checkpoints,
    console: Console,
) -> None:
    """Put the mirror's whole checkpoints in the place of damaged ones."""
    with Checkpoints(mirror.checkpoints, warn=console.warning) as theirs:
        # read first: what is damaged there as well must not replace anything
        _read(plan, env, algorithm, mirror.path, theirs.restore, Console(io.StringIO()))
        whole = [n for n in theirs.iterations() if n not in theirs.store.damaged]
    replace_damaged(mirror, saves.store, whole)
    console.message(
        f"copied back from the mirror {mirror.path}: {len(whole)} checkpoints, "
        f"the newest of iteration {whole[-1]:,}"
    )


def _read(
    plan: Plan,
    env: Env,
    algorithm: Algorithm,
    source: Path,
    restore: Restore,
    console: Console,
) -> TrainState | None:
    """A checkpoint's state, with environments made anew where their number has changed."""
    config = plan.config
    usual = saved_num_envs(source) or env.num_envs
    theirs = usual

    def form(saved: dict[str, Any]) -> TrainState:
        nonlocal theirs
        theirs = int(saved.get("num_envs", usual))
        return form_for(config, env, algorithm, theirs)

    found = restore(form)
    if found is None:
        return None
    state: TrainState = found[0]
    if theirs == env.num_envs:
        return state
    console.message(
        f"environments made anew: {env.num_envs} instead of {theirs}; the learner continues"
    )
    return with_fresh_envs(state, env, algorithm, config.seed)
