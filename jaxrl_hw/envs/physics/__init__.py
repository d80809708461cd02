"""Physics engines behind one signature: MJX and MuJoCo Warp on the device, MuJoCo's C engine on CPU
threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jaxrl_hw.envs.physics.api import ModelParams, Physics, PhysState
from jaxrl_hw.errors import unknown

if TYPE_CHECKING:
    import mujoco

ENGINES = ("mjx", "native", "warp")

__all__ = ["ENGINES", "ModelParams", "PhysState", "Physics", "make_physics"]


def make_physics(
    engine: str,
    model: mujoco.MjModel,
    substeps: int,
    fields: tuple[str, ...] = (),
    threads: int = 0,
    late: bool = False,
    bounds: tuple[int, int] | None = None,
) -> Physics:
    """The engine of that name for a model.

    Args:
      engine: "mjx", "native" or "warp".
      model: from `physics.model.compile_model`.
      substeps: physics steps per control step.
      fields: names of MjModel arrays that differ between environments (randomization).
      threads: CPU threads of the native engine, 0 for all.
      late: ctrl is of `api.late_ctrl`'s form: it changes in the midst of a control step.
      bounds: on MJX's solver, iterations and line search trips; None takes `mjx.BOUNDS`. The other
        engines stop where a simulation has converged.

    Raises:
      UserError: unknown engine, or one whose package is not installed.
    """
    if engine == "native":
        from jaxrl_hw.envs.physics import native

        return native.make(model, substeps, fields, threads, late=late)
    if engine == "mjx":
        from jaxrl_hw.envs.physics import mjx

        return mjx.make(model, substeps, fields, late, bounds)
    if engine == "warp":
        from jaxrl_hw.envs.physics import warp

        return warp.make(model, substeps, fields, late)
    raise unknown("physics engine", engine, ENGINES)
