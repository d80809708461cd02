"""What a run's program will allocate, by the compiler's own account; nothing is allocated here."""

from __future__ import annotations

from dataclasses import replace

from jaxrl_hw import footprint
from jaxrl_hw.config import Config
from jaxrl_hw.factory import make_algorithm, make_env
from jaxrl_hw.hardware.compiled import ProgramMemory, program_memory, tree_bytes
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.memory import settle
from jaxrl_hw.hardware.remembered import Record, remember
from jaxrl_hw.hardware.sizing import granularity_of
from jaxrl_hw.loop import CompiledStep, compile_train_step, state_form
from jaxrl_hw.rollout import Env
from jaxrl_hw.types import TrainState

_SMALL = (32, 96)
"""Numbers of environments at which a program is looked at, about: its memory is a line in them."""


def items_of(env: Env, form: TrainState, compiled: CompiledStep) -> dict[str, int] | None:
    """Bytes of an iteration at its peak, item by item (`footprint.ITEMS`).

    Args:
      env: whose engine may keep memory of its own.
      form: of the train state.
      compiled: the step for states of that form.

    Returns:
      None where the backend's compiler tells nothing.
    """
    collect, update = program_memory(compiled.collect), program_memory(compiled.update)
    if collect is None or update is None:
        return None
    return {
        "program": collect.code + update.code,
        # held twice: the learner that goes into an update stays whole until the next one is there
        "networks": 2 * tree_bytes(form.params),
        "optimizer": 2 * tree_bytes(form.opt_state),
        "normalizer": 2 * tree_bytes(form.obs_stats),
        "environments": tree_bytes(form.env_state),
        "rollout": tree_bytes(compiled.batch),
        "temporaries": _temporaries(collect, update),
        "physics": env.host_bytes,
    }


def measure(config: Config, hardware: Hardware) -> Record:
    """Compile a run's program for two small numbers of environments and remember its figures.

    Seconds, tens of them for MJX: a figure of the cache is there at once (`figures_of`).

    Args:
      config: with its engine settled.
      hardware: of this machine; JAX's device must be of its kind.

    Raises:
      UserError: see `factory.make_env`.
    """
    import jax

    step = granularity_of(config.ppo.unroll, config.ppo.minibatches)
    # buffers are assigned before machine code is made: that part may be done in a hurry
    quick = {"xla_backend_optimization_level": 0} if jax.default_backend() == "cpu" else None
    points = {}
    for about in _SMALL:
        number = -(-about // step) * step
        env = make_env(replace(config, num_envs=number))
        algorithm = make_algorithm(config, env)
        form = state_form(env, algorithm)
        items = items_of(env, form, compile_train_step(env, algorithm, form, quick))
        if items is not None:
            points[number] = items
    settle()
    return remember(footprint.program(config, hardware), points=points)


def _temporaries(collect: ProgramMemory, update: ProgramMemory) -> int:
    """Of both halves together.

    An accelerator's pool gives the one's memory to the other. On a CPU each asks malloc, which
    keeps what it was given back in pieces of its own: there they add up.
    """
    import jax

    both = (collect.temporaries, update.temporaries)
    return sum(both) if jax.default_backend() == "cpu" else max(both)
