"""MJX: MuJoCo written in JAX, for accelerators (and, slowly, for CPUs)."""

from __future__ import annotations

import jax
import mujoco
from jax import Array, lax
from mujoco import mjx

from jaxrl_hw.physics.api import ModelParams, Physics, PhysState

SOLVER_ITERATIONS = 6
LINESEARCH_ITERATIONS = 8
"""MJX runs every environment for as many solver trips as the slowest one needs, and each trip of
its while loop waits for the host on a GPU; C MuJoCo stops per simulation. So MJX gets a bound."""


def make(model: mujoco.MjModel, substeps: int, fields: tuple[str, ...]) -> Physics:
    """The MJX engine for a model; see `jaxrl_hw.physics.make_physics`."""
    shared = mjx.put_model(model, impl="jax")
    shared = shared.tree_replace(
        {
            "opt.iterations": min(SOLVER_ITERATIONS, int(model.opt.iterations)),
            "opt.ls_iterations": min(LINESEARCH_ITERATIONS, int(model.opt.ls_iterations)),
        }
    )

    def step(params: ModelParams, state: PhysState, ctrl: Array) -> tuple[PhysState, Array]:
        own = shared.replace(**{name: params[name] for name in fields})
        # mjx.Data is large (about 50 kB for a G1): it lives only inside this control step
        data = mjx.make_data(model, impl="jax").replace(
            qpos=state.qpos,
            qvel=state.qvel,
            act=state.act,
            qacc_warmstart=state.qacc_warmstart,
            time=state.time,
            ctrl=ctrl,
        )
        # TF32 (the default for float32 on recent NVIDIA cards) is too coarse for contact forces
        with jax.default_matmul_precision("highest"):
            data, _ = lax.scan(lambda d, _: (mjx.step(own, d), None), data, None, length=substeps)
        out = PhysState(data.qpos, data.qvel, data.act, data.qacc_warmstart, data.time)
        return out, data.sensordata

    return Physics("mjx", model, substeps, fields, step)
