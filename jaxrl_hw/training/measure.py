"""What a run's program will allocate, by the compiler's own account; nothing is allocated here."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import jax

from jaxrl_hw.config.factory import make_algorithm, make_env
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.malloc import LARGE, settle
from jaxrl_hw.hardware.measurement_cache import Record, remember
from jaxrl_hw.hardware.sizing import granularity_of
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.compiler_stats import program_memory, tree_bytes
from jaxrl_hw.training.train_step import compile_train_step, compile_update, state_form
from jaxrl_hw.types import Algorithm, Batch, TrainState


def items_of(
    env: Env, form: TrainState, batch: Batch, collect: Any, update: Any
) -> dict[str, int] | None:
    """Bytes of an iteration at its peak, item by item (`footprint.ITEMS`).

    Args:
      env: whose engine may keep memory of its own.
      form: of the train state.
      batch: form of what goes from one half of the step to the other.
      collect, update: the compiled halves, or the figures of one.

    Returns:
      None where the backend's compiler tells nothing.
    """
    collecting, updating = program_memory(collect), program_memory(update)
    if collecting is None or updating is None:
        return None
    return {
        "program": collecting.code + updating.code,
        # held twice: the learner that goes into an update stays whole until the next one is there
        "networks": 2 * tree_bytes(form.params),
        "optimizer": 2 * tree_bytes(form.opt_state),
        "normalizer": 2 * tree_bytes(form.obs_stats),
        "environments": tree_bytes(form.env_state),
        "rollout": tree_bytes(batch) + _kept(batch),
        "temporaries": max(collecting.temporaries, updating.temporaries),
        "physics": env.host_bytes,
    }


def measure(config: Config, hardware: Hardware) -> Record:
    """Compile a run's program for two numbers of environments and remember its figures.

    Takes seconds, a minute or two for MJX, as long for any number of environments;
    `footprint.need` knows the figures from then on. The collection, whose temporaries grow with
    the environments alone, is compiled for the larger number only.

    Args:
      config: with its engine settled.
      hardware: of this machine; JAX's device must be of its kind.

    Raises:
      UserError: see `factory.make_env`.
    """
    # buffers are assigned before machine code is made: that part may be done in a hurry
    quick = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    few, many = memory_model.LOOKED_AT
    small = _made(config, few)
    large = _made(config, max(many, 2 * small[0].num_envs))
    with ThreadPoolExecutor(1) as beside:
        waiting = beside.submit(lambda: compile_update(*small, quick))
        compiled = compile_train_step(*large, quick)
        update, batch = waiting.result()
    collect, points = program_memory(compiled.collect), {}
    if collect is not None:
        share = small[0].num_envs / large[0].num_envs
        scaled = collect._replace(temporaries=round(share * collect.temporaries))
        found = (
            (small, items_of(small[0], small[2], batch, scaled, update)),
            (large, items_of(large[0], large[2], compiled.batch, collect, compiled.update)),
        )
        points = {made[0].num_envs: items for made, items in found if items is not None}
    settle()
    return remember(memory_model.program(config, hardware), points=points)


def _made(config: Config, about: int) -> tuple[Env, Algorithm, TrainState]:
    """Environments, algorithm and the form of a state, for about that many environments."""
    step = granularity_of(config.ppo.unroll, config.ppo.minibatches)
    config = replace(config, num_envs=-(-about // step) * step)
    env = make_env(config)
    algorithm = make_algorithm(config, env)
    return env, algorithm, state_form(env, algorithm)


def _kept(batch: Batch) -> int:
    """What malloc keeps of the last iteration's batch on a CPU, bytes.

    Arrays under `malloc.LARGE` that were given back are used again by the thread that made them;
    the next batch may be made by another.
    """
    if jax.default_backend() != "cpu":
        return 0
    sizes = (tree_bytes(leaf) for leaf in jax.tree.leaves(batch))
    return sum(size for size in sizes if size < LARGE)
