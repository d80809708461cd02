"""Out of memory in the middle of a run: what is whole goes on, with less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import jax

from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError
from jaxrl_hw.hardware.sizing import granularity_of
from jaxrl_hw.loggers import formats
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.training.exhaustion import bytes_asked, is_exhausted
from jaxrl_hw.types import TrainState


def smaller(
    plan: Plan, error: BaseException, state: TrainState | None, items: Mapping[str, int] | None
) -> tuple[Plan, str] | None:
    """The plan to go on with after an error, and in words what has changed.

    The minibatches are made smaller where the update failed over an allocation of the size of its
    own temporaries: the experience stays as much as it was. Else the environments are halved.

    Args:
      plan: of the step that failed.
      error: what was raised.
      state: that the failed step was given; None before the first.
      items: bytes by item as the compiler counts them, None where it does not tell.

    Returns:
      None where the error is about something else than memory.

    Raises:
      RunError: the user wants it to fail, or there is nothing left to halve.
    """
    if not is_exhausted(error):
        return None
    config, at = plan.config, 0 if state is None else int(state.iteration)
    updating, asked = _was_updating(state), bytes_asked(error)
    said = f"out of memory {'in the update of' if updating else 'in'} iteration {at + 1:,}"
    said += f" with {config.num_envs:,} environments"
    said += f" ({formats.size(asked)} asked for)" if asked else ""
    if config.on_oom == "fail":
        raise RunError(f"{said}; use --num-envs auto, or --on-oom shrink to go on with fewer")
    temporaries = (items or {}).get("temporaries", 0)
    if updating and asked and 2 * asked >= temporaries > 0:
        changed = _halved_minibatches(config) or _halved_envs(config)
    else:
        changed = _halved_envs(config)
    if changed is None:
        raise RunError(f"{said}, and no fewer will do: use smaller networks or a shorter unroll")
    now, what = changed
    return plan.resized(now), f"{said}: goes on with {what}"


def is_whole(state: TrainState) -> bool:
    """Whether the learner of a state that a failed step was given can still be read."""
    kept = (state.learner, state.key, state.iteration, state.env_steps)
    return not _is_gone(kept)


def _was_updating(state: TrainState | None) -> bool:
    """The step hands the environments' memory on: where that is gone the collection had ended."""
    return state is not None and state.env_state is not None and _is_gone(state.env_state)


def _is_gone(tree: object) -> bool:
    return any(leaf.is_deleted() for leaf in jax.tree.leaves(tree))


def _halved_minibatches(config: Config) -> tuple[Config, str] | None:
    samples = int(config.num_envs) * config.ppo.unroll
    number = 2 * config.ppo.minibatches
    if samples % number or samples == number:
        return None
    ppo = replace(config.ppo, minibatches=number)
    return replace(config, ppo=ppo), f"minibatches of {samples // number:,} samples, half as many"


def _halved_envs(config: Config) -> tuple[Config, str] | None:
    step = granularity_of(config.ppo.unroll, config.ppo.minibatches)
    half = int(config.num_envs) // 2 // step * step
    if half < step:
        return None
    return replace(config, num_envs=half), f"{half:,}"
