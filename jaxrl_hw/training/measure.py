"""What a run's program will allocate, by the compiler's own account; nothing is allocated here."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.hardware import cpu_compiler
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.measurement_cache import Measurement, store
from jaxrl_hw.hardware.memory import LARGE, trim
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.devices import dividing
from jaxrl_hw.training.run import environments
from jaxrl_hw.training.stacked import arrangement_of
from jaxrl_hw.training.train_step import (
    CompiledStep,
    compile_train_step,
    compile_update,
    state_form,
)
from jaxrl_hw.types import Algorithm, TrainState


class ProgramMemory(NamedTuple):
    """Bytes of one execution of a compiled program, by XLA's own buffer assignment."""

    temporaries: int
    """What lives only while it runs."""
    code: int
    """The program itself; 0 where the backend does not report it (a CPU)."""


def program_memory(compiled: Any) -> ProgramMemory | None:
    """The figures of a `jax.stages.Compiled`; None where its backend gives none."""
    try:
        stats = compiled.memory_analysis()
        return ProgramMemory(int(stats.temp_size_in_bytes), int(stats.generated_code_size_in_bytes))
    except Exception:  # plugins leave it out in ways of their own
        return None


def items_of(
    env: Env,
    form: TrainState,
    batch: Any,
    collect: ProgramMemory,
    update: ProgramMemory,
    platform: str = "",
) -> dict[str, int]:
    """Bytes of an iteration at its peak, item by item (`memory_model.ITEMS`), on each device; of
    all of them on a CPU, whose devices share its memory.

    form, batch: of the train state, and of what goes from one half of the step to the other, of all
        seeds where they are several.
    platform: that runs it; JAX's own where it is empty.
    """
    networks, optimizer, normalizer = map(_bytes, (form.params, form.opt_state, form.obs_stats))
    learned = networks + optimizer + normalizer
    on_cpu = (platform or jax.default_backend()) == "cpu"
    kept = _kept_by_malloc(batch) if on_cpu else 0
    items = {
        "program": collect.code + update.code,
        # the learner that goes into an update stays whole until the next one is there
        "networks": 2 * networks,
        "optimizer": 2 * optimizer,
        "normalizer": 2 * normalizer,
        "replay": _bytes(form.learner) - learned,
        "environments": _bytes(form.env_state),
        "rollout": _bytes(batch) + kept,
        "temporaries": max(collect.temporaries, update.temporaries),
    }
    sharing = len(form.key.sharding.addressable_devices) if on_cpu and form.key.sharding else 1
    further = (math.prod(form.iteration.shape) - 1) * env.num_envs  # environments of more seeds
    physics = env.host_bytes // jax.process_count() + further * env.host_bytes_each
    return {**{name: sharing * size for name, size in items.items()}, "physics": physics}


def measure(config: Config, hardware: Hardware) -> Measurement:
    """Compile a run's program for two numbers of environments and store its figures.

    Takes seconds, a minute or two for MJX. `memory_model.footprint` uses the figures from then on.
    The temporaries of the collection grow in proportion to the environments, so it is compiled for
    the larger number only.

    Args:
      config: with its engine settled.
      hardware: of this machine; JAX's device must be of its kind.

    Raises:
      UserError: see `factory.make_env`.
    """
    # buffers are assigned before machine code is made, which may then be done in a hurry
    points, compiled = compiled_points(config, memory_model.MEASURED_AT, cpu_compiler.unoptimized())
    trim()
    key = memory_model.program_key(config, hardware)
    return store(key, points=points, lowered={max(points, default=0): compiled.lowered})


def compiled_points(
    config: Config,
    sizes: tuple[int, int],
    options: dict[str, Any] | None = None,
    place: Callable[[TrainState], TrainState] = lambda form: form,
    platform: str = "",
) -> tuple[dict[int, dict[str, int]], CompiledStep]:
    """Bytes by item for two numbers of environments, and the compiled step of the larger one.

    No figures where the backend gives none.

    Args:
      sizes: about the smaller number, and at least the larger one.
      options: XLA's compiler options, by name.
      place: gives the form of a state the device to compile for.
      platform: of that device; JAX's own where it is empty.
    """
    small = _made(config, sizes[0])
    large = _made(config, max(sizes[1], 2 * small[0].num_envs))
    layout = arrangement_of(replace(config, num_envs=large[0].num_envs))
    place = place if layout is None else layout.place
    forms = place(small[2]), place(large[2])
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(lambda: compile_update(*small[:2], forms[0], options, layout))
        compiled = compile_train_step(*large[:2], forms[1], options, layout)
        small_update, small_batch, _ = waiting.result()
    collect, update, few_updated = (
        program_memory(c) for c in (compiled.collect, compiled.update, small_update)
    )
    few, many = small[0].num_envs, large[0].num_envs
    if not (collect and update and few_updated):
        return {}, compiled
    # without a layout the forms are of a device that may not be here
    counted = forms if layout is not None else (small[2], large[2])
    scaled = collect._replace(temporaries=round(few / many * collect.temporaries))
    points = {
        few: items_of(small[0], counted[0], small_batch, scaled, few_updated, platform),
        many: items_of(large[0], counted[1], compiled.batch, collect, update, platform),
    }
    return points, compiled


def _made(config: Config, num_envs: int) -> tuple[Env, Algorithm, TrainState]:
    """Environments, algorithm and the form of a state, for about that many environments."""
    env, algorithm = environments(replace(config, num_envs=dividing(config, num_envs)))
    return env, algorithm, state_form(env, algorithm)


def _bytes(tree: Any) -> int:
    """Bytes of all arrays of a tree, or of their jax.ShapeDtypeStructs, on one device."""
    return sum(_leaf_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _leaf_bytes(leaf: Any) -> int:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.eval_shape(jax.random.key_data, leaf)
    sharding = getattr(leaf, "sharding", None)
    shape = leaf.shape if sharding is None else sharding.shard_shape(leaf.shape)
    return math.prod(shape) * int(leaf.dtype.itemsize)


def _kept_by_malloc(batch: Any) -> int:
    """What malloc keeps of the last iteration's batch on a CPU, bytes.

    Freed arrays under `memory.LARGE` are used again only by the thread that made them; another
    thread may make the next batch.
    """
    return sum(size for leaf in jax.tree.leaves(batch) if (size := _leaf_bytes(leaf)) < LARGE)
