"""The memory and launches of a run's program on a GPU that is not here, from XLA's GPU compiler.

`measured` and `compiled_point` start this module as a process of its own, in which JAX finds the
compiler's wheels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jaxrl_hw.config import validation
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError, one_line
from jaxrl_hw.hardware import gpu_compiler, hlo
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.measurement_cache import store
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.kept_figures import Point
from jaxrl_hw.types import TrainState

COMPILED_AT = (1024, 4096)
"""Numbers of environments whose program is compiled: what a GPU trains with."""
_NO_FIGURES = "the compiler gave no memory figures"
_KEPT_LINES = 3
"""Of the compiler's messages, in an error."""


def measured(config: Config, hardware: Hardware, card: str) -> dict[str, Any]:
    """Compile a config's program for a card and keep its figures for later plans.

    Takes minutes for MJX. Nothing of the card is needed, but the compiler's wheels are.

    Args:
      config: its engine is "mjx".
      hardware: of the card, under whose name the figures are kept.
      card: name of its profile.

    Returns:
      {"points": {num_envs: {item: bytes}}, "launches": {"collect": ..., "update": ...}}, launches
      per iteration of the larger number of environments, with one iteration of the solver.

    Raises:
      UserError: the compiler is not installed, or has no description of the card.
      RunError: the compiler failed.
    """
    found = _in_its_process("two sizes", config, card)
    points = {int(number): items for number, items in found["points"].items()}
    store(memory_model.program_key(config, hardware), points=points)
    return {**found, "points": points}


def compiled_point(config: Config, card: str) -> Point:
    """The memory of a config's program with its number of environments on a card.

    config: its engine is "mjx", its num_envs a number; an open unroll is the one that suits it.

    Raises:
      UserError, RunError: see `measured`.
    """
    found = _in_its_process("one size", config, card)
    return Point(**found)


def _in_its_process(task: str, config: Config, card: str) -> dict[str, Any]:
    """What one of `_TASKS` returns, from a process with the compiler's wheels."""
    target = gpu_compiler.target(card)
    gpu_compiler.check_installed()
    job = {"task": task, "config": validation.to_dict(config), "target": str(target)}
    done = subprocess.run(
        [sys.executable, "-m", "jaxrl_hw.training.gpu_figures"],
        input=json.dumps(job),
        env=gpu_compiler.environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()][-_KEPT_LINES:]
        raise RunError(f"the GPU compiler failed for {card}: {' | '.join(lines) or 'no message'}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _two_sizes(config: Config, target: Path) -> dict[str, Any]:
    """What `measured` returns, in a process with `gpu_compiler.environment`'s variables."""
    from jaxrl_hw.training.measure import compiled_points

    points, compiled = compiled_points(config, COMPILED_AT, {}, _placed(target), "gpu")
    if not points:
        raise RunError(_NO_FIGURES)
    halves = {"collect": compiled.collect, "update": compiled.update}
    return {
        # MJX keeps memory beside its arrays on a CPU only
        "points": {number: {**items, "physics": 0} for number, items in points.items()},
        "launches": {name: hlo.launches(half.as_text()) for name, half in halves.items()},
    }


def _one_size(config: Config, target: Path) -> dict[str, Any]:
    """The fields of `compiled_point`'s result, likewise."""
    from jaxrl_hw.training.measure import items_of, program_memory
    from jaxrl_hw.training.run import environments
    from jaxrl_hw.training.train_step import compile_train_step, state_form

    env, algorithm = environments(config)
    form = state_form(env, algorithm)
    compiled = compile_train_step(env, algorithm, _placed(target)(form), options={})
    collect, update = program_memory(compiled.collect), program_memory(compiled.update)
    if not (collect and update):
        raise RunError(_NO_FIGURES)
    items = items_of(env, form, compiled.batch, collect, update, "gpu")
    del items["temporaries"], items["physics"]
    return {
        "num_envs": env.num_envs,
        "unroll": algorithm.unroll,
        "items": items,
        "collect": collect.temporaries,
        "update": update.temporaries,
    }


def _placed(target: Path) -> Callable[[TrainState], TrainState]:
    """Gives the form of a state the described card to compile for."""
    import jax

    card = gpu_compiler.sharding(target)

    def placed(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=card)

    return lambda form: jax.tree.map(placed, form)


_TASKS = {"two sizes": _two_sizes, "one size": _one_size}


def _main() -> int:
    job = json.load(sys.stdin)
    try:
        config = validation.from_dict(job["config"], Config(), "the job")
        found = _TASKS[job["task"]](config, Path(job["target"]))
    except RunError as error:
        print(one_line(error), file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
