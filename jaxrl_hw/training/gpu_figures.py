"""The memory and launches of a run's program on a GPU that is not here, from XLA's GPU compiler.

`measured` starts this module as a process of its own, in which JAX finds the compiler's wheels.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from jaxrl_hw.config import validation
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError, one_line
from jaxrl_hw.hardware import gpu_compiler, hlo
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.measurement_cache import store
from jaxrl_hw.planning import memory_model

COMPILED_AT = (1024, 4096)
"""Numbers of environments whose program is compiled: what a GPU trains with."""
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
    target = gpu_compiler.target(card)
    gpu_compiler.check_installed()
    job = {"config": validation.to_dict(config), "target": str(target)}
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
    points = {int(number): items for number, items in found["points"].items()}
    store(memory_model.program_key(config, hardware), points=points)
    return {**found, "points": points}


def figures(config: Config, target: Path) -> dict[str, Any]:
    """What `measured` returns, in a process with `gpu_compiler.environment`'s variables."""
    import jax

    from jaxrl_hw.training.measure import compiled_points

    card = gpu_compiler.sharding(target)

    def on_card(form: Any) -> Any:
        def placed(leaf: Any) -> Any:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=card)

        return jax.tree.map(placed, form)

    points, compiled = compiled_points(config, COMPILED_AT, place=on_card, platform="gpu")
    if not points:
        raise RunError("the compiler gave no memory figures")
    halves = {"collect": compiled.collect, "update": compiled.update}
    return {
        # MJX keeps memory beside its arrays on a CPU only
        "points": {number: {**items, "physics": 0} for number, items in points.items()},
        "launches": {name: hlo.launches(half.as_text()) for name, half in halves.items()},
    }


def _main() -> int:
    job = json.load(sys.stdin)
    try:
        found = figures(
            validation.from_dict(job["config"], Config(), "the job"), Path(job["target"])
        )
    except RunError as error:
        print(one_line(error), file=sys.stderr)
        return 1
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(_main())
