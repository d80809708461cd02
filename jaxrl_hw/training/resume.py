"""The restore phase: the state that a run continues from."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import jax

from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.description import read_meta
from jaxrl_hw.checkpointing.mirror import copied_back, replace_damaged
from jaxrl_hw.checkpointing.restore import AllDamagedError, restore_from
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.envs.vector import Env, make_key, rekeyed
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning.continuation import RESUME_WORDS
from jaxrl_hw.planning.halving import missing
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training.run import saved_form
from jaxrl_hw.training.train_step import state_form, with_fresh_envs
from jaxrl_hw.types import Algorithm, TrainState


def restore_state(
    plan: Plan, env: Env, algorithm: Algorithm, checkpoints: Checkpoints, console: Console
) -> TrainState | None:
    """The newest whole checkpoint of the plan's run, or the one `--resume PATH` names; else None.

    Where every checkpoint in the run folder is damaged, the mirror's replace them. Where the number
    of environments or the form of one has changed, they are reset.

    Raises:
      UserError: a checkpoint of another form, or a newer version's.
      RunError: every checkpoint is damaged, in the mirror too.
    """
    config = plan.config
    form = partial(saved_form, config, env, algorithm)
    if plan.iterations_done:
        try:
            found = checkpoints.restore(form(plan.folder))
        except AllDamagedError:
            if plan.mirror is None or not plan.mirror.newest_checkpoint():
                raise
            _copy_from_mirror(plan.mirror, form(plan.mirror.path), checkpoints, console)
            found = checkpoints.restore(form(plan.folder))
    elif config.resume in RESUME_WORDS:
        return None
    else:
        path = Path(config.resume).expanduser()
        found = restore_from(path, form(path), console.warning)
        console.message(f"starting from iteration {found[1]} of {path}")
    if found is None:
        return None
    state: TrainState = _with_key_of_now(found[0], console)
    if plan.iterations_done and plan.halvings:
        settings = read_meta(checkpoints.store.folder(found[1])).get("config", {})
        state = slowed(state, algorithm, missing(settings, plan.halvings))
    saved = jax.tree.leaves(state.env_state.envs)[0].shape[0]
    if saved != env.num_envs:
        console.message(
            f"continuing with {env.num_envs:,} environments (reset) instead of {saved:,}; the "
            "learner is kept"
        )
    elif _form(state.env_state) != _form(state_form(env, algorithm).env_state):
        console.message(
            "the environments are reset, because other settings simulate other parts of the "
            "robot; the learner is kept"
        )
    else:
        return _with_replay(state, env, algorithm, console)
    return with_fresh_envs(state, env, algorithm, config.seed)


def _with_key_of_now(state: TrainState, console: Console) -> TrainState:
    """The state, its random key made anew where it is of a kind that an earlier version used."""
    if state.key.dtype == make_key(0).dtype:
        return state
    console.message(
        "an earlier version drew this run's random numbers in another way: it goes on with other "
        "numbers, so not as it would have gone on there"
    )
    return state._replace(key=rekeyed(state.key))


def _with_replay(state: TrainState, env: Env, algorithm: Algorithm, console: Console) -> TrainState:
    """The state, with an empty replay where its own was not saved or has another form."""
    empty = jax.eval_shape(lambda: algorithm.replay(env.num_envs))
    if _form(state.replay) == _form(empty):
        return state
    why = "is of another size" if jax.tree.leaves(state.replay) else "was not saved"
    console.message(f"the replay {why}, so it starts empty: the run does not continue exactly")
    return state._replace(replay=algorithm.replay(env.num_envs))


def slowed(state: TrainState, algorithm: Algorithm, times: int) -> TrainState:
    """A state whose learning rate is halved so many times."""
    for _ in range(times):
        state = state._replace(**algorithm.slowed(state.learner)._asdict())
    return state


def _form(tree: Any) -> tuple[Any, ...]:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _copy_from_mirror(
    mirror: RunDir, form: Any, checkpoints: Checkpoints, console: Console
) -> None:
    """Replace damaged checkpoints by the mirror's whole ones."""
    with Checkpoints(mirror.checkpoints, warn=console.warning) as copies:
        copies.restore(form)  # read first: a copy that is damaged too must not replace anything
        whole = [one.iteration for one in copies.store.sound()]
    replace_damaged(mirror, checkpoints.store, whole)
    console.message(copied_back(mirror, whole))
