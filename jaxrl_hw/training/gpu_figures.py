"""The memory and work of a run's program on a GPU or TPU that is not here, from XLA's compilers.

`measured` and `compiled_point` start this module as a process of its own, in which JAX finds the
compiler's wheels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jaxrl_hw.config import validation
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError, one_line
from jaxrl_hw.hardware import compilers, hlo, profiles
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.measurement_cache import store
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.kept_figures import Point
from jaxrl_hw.types import TrainState

if TYPE_CHECKING:
    from jaxrl_hw.training.train_step import CompiledStep

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
      {"points": {num_envs: {item: bytes}}, "work": {"collect": ..., "update": ...}}: `hlo.Work` per
      iteration of the larger number of environments, by name.

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


def compiled_program(config: Config, card: str) -> tuple[Point, dict[str, str]]:
    """`compiled_point`, and the program as text (optimized HLO), by half: "collect", "update"."""
    found = _in_its_process("one size and its texts", config, card)
    return Point(**found["point"]), found["texts"]


def _in_its_process(task: str, config: Config, card: str) -> dict[str, Any]:
    """What one of `_TASKS` returns, from a process with the compiler's wheels."""
    compiler = compilers.of(card)
    compiler.target(card)
    compiler.check_installed()
    job = {"task": task, "config": validation.to_dict(config), "card": card}
    done = subprocess.run(
        [sys.executable, "-m", "jaxrl_hw.training.gpu_figures"],
        input=json.dumps(job),
        env=compiler.environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()][-_KEPT_LINES:]
        raise RunError(f"the compiler failed for {card}: {' | '.join(lines) or 'no message'}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def _two_sizes(config: Config, card: str) -> dict[str, Any]:
    """What `measured` returns, in a process with the compiler's `environment`."""
    from jaxrl_hw.training.measure import compiled_points

    points, compiled = compiled_points(
        config, COMPILED_AT, {}, _placed(card), profiles.named(card).platform
    )
    if not points:
        raise RunError(_NO_FIGURES)
    return {
        # MJX keeps memory beside its arrays on a CPU only
        "points": {number: {**items, "physics": 0} for number, items in points.items()},
        "work": _work(compiled),
    }


def _one_size(config: Config, card: str) -> dict[str, Any]:
    """The fields of `compiled_point`'s result, likewise."""
    return _compiled(config, card)[0]


def _one_size_and_its_texts(config: Config, card: str) -> dict[str, Any]:
    """Both of `compiled_program`, likewise."""
    point, compiled = _compiled(config, card)
    return {"point": point, "texts": {n: half.as_text() for n, half in _halves(compiled).items()}}


def _compiled(config: Config, card: str) -> tuple[dict[str, Any], CompiledStep]:
    from jaxrl_hw.training.measure import items_of, program_memory
    from jaxrl_hw.training.run import environments
    from jaxrl_hw.training.train_step import compile_train_step, state_form

    env, algorithm = environments(config)
    form = state_form(env, algorithm)
    compiled = compile_train_step(env, algorithm, _placed(card)(form), options={})
    collect, update = program_memory(compiled.collect), program_memory(compiled.update)
    if not (collect and update):
        raise RunError(_NO_FIGURES)
    items = items_of(env, form, compiled.batch, collect, update, profiles.named(card).platform)
    del items["temporaries"], items["physics"]
    point = {
        "num_envs": env.num_envs,
        "unroll": algorithm.unroll,
        "items": items,
        "collect": collect.temporaries,
        "update": update.temporaries,
        "work": _work(compiled),
    }
    return point, compiled


def _halves(compiled: CompiledStep) -> dict[str, Any]:
    return {"collect": compiled.collect, "update": compiled.update}


def _work(compiled: CompiledStep) -> dict[str, dict[str, int]]:
    halves = _halves(compiled).items()
    return {name: hlo.work(half.as_text())._asdict() for name, half in halves}


def _placed(card: str) -> Callable[[TrainState], TrainState]:
    """Gives the form of a state the described card to compile for."""
    import jax

    compiler = compilers.of(card)
    device = compiler.sharding(compiler.target(card))

    def placed(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=device)

    return lambda form: jax.tree.map(placed, form)


_TASKS: dict[str, Callable[[Config, str], Any]] = {
    "two sizes": _two_sizes,
    "one size": _one_size,
    "one size and its texts": _one_size_and_its_texts,
}


def _main() -> int:
    job = json.load(sys.stdin)
    try:
        config = validation.from_dict(job["config"], Config(), "the job")
        found = _TASKS[job["task"]](config, job["card"])
    except RunError as error:
        print(one_line(error), file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
