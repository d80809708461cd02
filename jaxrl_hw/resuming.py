"""The state that a run goes on from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxrl_hw.factory import make_algorithm, make_env
from jaxrl_hw.loop import init_train_state, state_form
from jaxrl_hw.origins import RESUME_WORDS
from jaxrl_hw.planning import Plan
from jaxrl_hw.rollout import Env
from jaxrl_hw.run import saved_num_envs
from jaxrl_hw.sessions.checkpoint import Checkpoints, restore_from
from jaxrl_hw.telemetry.console import Console
from jaxrl_hw.types import Algorithm, TrainState


def restore_state(
    plan: Plan, env: Env, algorithm: Algorithm, saves: Checkpoints, console: Console
) -> TrainState | None:
    """The newest whole checkpoint of the plan's run, or the one it starts from; None without one.

    Raises:
      UserError: a checkpoint of another form.
      RunError: every checkpoint is damaged.
    """
    resume = plan.config.resume
    if plan.iterations_done:
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


def _read(
    plan: Plan,
    env: Env,
    algorithm: Algorithm,
    source: Path,
    restore: Callable[[Any], Any],
    console: Console,
) -> TrainState | None:
    """A checkpoint's state, with environments made anew where their number has changed."""
    config = plan.config
    theirs = saved_num_envs(source) or env.num_envs
    then = env if theirs == env.num_envs else make_env(replace(config, num_envs=theirs))
    found = restore(state_form(then, make_algorithm(config, then)))
    if found is None:
        return None
    state: TrainState = found[0]
    if theirs == env.num_envs:
        return state
    console.message(
        f"environments made anew: {env.num_envs} instead of {theirs}; the learner continues"
    )
    fresh = init_train_state(env, algorithm, config.seed + found[1])
    return state._replace(env_state=fresh.env_state)
