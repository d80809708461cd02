"""Out of memory: recognize the error and plan a smaller run that keeps the learner."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import jax

from jaxrl_hw.config.factory import algorithm_needs
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError
from jaxrl_hw.loggers import formats
from jaxrl_hw.planning.ladder import halved_minibatches, next_rung, size_of
from jaxrl_hw.planning.memory_model import footprint
from jaxrl_hw.planning.plan import Plan
from jaxrl_hw.planning.replay import replay_of
from jaxrl_hw.types import TrainState

_ALLOCATION = re.compile(r"allocat\w+ ([0-9.]+) ?(?:bytes|([KMGT])(i?)B)")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is XLA's RESOURCE_EXHAUSTED or Python's MemoryError."""
    if not isinstance(error, jax.errors.JaxRuntimeError):
        return isinstance(error, MemoryError)
    text = str(error)
    return "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower()


def requested_bytes(error: BaseException) -> int | None:
    """The size in XLA's message: "... allocate 1073741824 bytes" or "... allocating 1.00GiB"."""
    match = _ALLOCATION.search(str(error))
    if match is None:
        return None
    power = " KMGT".index(match[2] or " ")
    return round(float(match[1]) * (1024 if match[3] else 1000) ** power)


def smaller_plan(
    plan: Plan, error: BaseException, state: TrainState | None, items: Mapping[str, int] | None
) -> tuple[Plan, str]:
    """The plan to continue with when memory has run out, and a sentence for the user.

    Where the update failed to allocate about as much as its own temporaries take, the minibatches
    are halved: the batch keeps its size. In every other case the next rung of `planning.ladder`
    follows: half of the environments, of the minibatches where there is but one, of the unroll. An
    algorithm with a replay halves that first, then its batches, then the environments.

    Args:
      plan, state: of the step that failed; no state before the first step.
      error: for which `is_out_of_memory` holds.
      items: bytes by item as the compiler counts them; None where it does not count.

    Raises:
      RunError: the user chose `--on-oom fail`, or nothing is left to halve.
    """
    config, iteration = plan.config, 1 if state is None else int(state.iteration) + 1
    updating, requested = _was_updating(state), requested_bytes(error)
    what = f"out of memory in {'the update of ' if updating else ''}iteration {iteration:,}"
    what += f" with {config.num_envs:,} environments"
    what += f" ({formats.size(requested)} requested)" if requested else ""
    if config.on_oom == "fail":
        fewer = (
            "or fewer --seeds" if config.seeds > 1 else "or --on-oom shrink to continue with fewer"
        )
        raise RunError(f"{what}; use --num-envs auto, {fewer}")
    temporaries = (items or {}).get("temporaries", 0)
    smaller, has_replay = None, replay_of(config) is not None
    if not has_replay and updating and requested and 2 * requested >= temporaries > 0:
        smaller = halved_minibatches(config)
    smaller = smaller or next_rung(config)
    if smaller is None:
        raise RunError(f"{what}, which cannot be halved: use smaller networks")
    if has_replay:
        plan = replace(plan, footprint=footprint(smaller, plan.hardware))
    return plan.resized(smaller), f"{what}: continuing with {_change(config, smaller)}"


def is_whole(state: TrainState) -> bool:
    """Whether the learner of a failed step's argument, but for its replay, can still be read."""
    learner = state.learner._replace(replay=())
    return not _is_deleted((learner, state.key, state.iteration, state.env_steps))


def _was_updating(state: TrainState | None) -> bool:
    """The collection takes the environments' memory: where that is deleted it had ended."""
    return state is not None and state.env_state is not None and _is_deleted(state.env_state)


def _is_deleted(tree: object) -> bool:
    return any(leaf.is_deleted() for leaf in jax.tree.leaves(tree))


def _change(before: Config, after: Config) -> str:
    """What has become smaller, in words."""
    then, now = size_of(before), size_of(after)
    if now["num_envs"] < then["num_envs"]:
        return f"{now['num_envs']:,} environments (reset)"
    if now["unroll"] < then["unroll"]:
        return f"{now['unroll']} steps per iteration"
    if "replay" in now:
        if now["replay"] < then["replay"]:
            return f"a replay of {now['replay']:,} transitions (empty at first)"
        return f"batches of {now['minibatch_size']:,} samples (the replay starts empty)"
    samples = now["num_envs"] * now["unroll"]
    count = algorithm_needs(after).minibatches(samples)
    return f"{count} minibatches of {samples // count:,} samples"
