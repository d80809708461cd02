"""MJX: MuJoCo written in JAX, for accelerators (and, slowly, for CPUs)."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array, lax

from jaxrl_hw.envs.physics import newton
from jaxrl_hw.envs.physics.api import ModelParams, Physics, PhysState, ctrl_at

with contextlib.redirect_stdout(io.StringIO()):  # it prints twice that the optional warp is missing
    from mujoco import mjx

SOLVER_ITERATIONS = 8
LINESEARCH_ITERATIONS = 3
"""Bounds on the solver. C MuJoCo stops each simulation when it has converged; here all environments
go on until the slowest has, and on an accelerator always to the bound, so that the host never has
to look. At these bounds at most one control step in a thousand is off by more than 1e-3 in qpos,
under large random actions; with 7 iterations up to five times as many are, with 6 some fifty times.
Two trips would do for the robots that were measured (benchmarks/physics_settings.py)."""
MJX_LINESEARCH_ITERATIONS = 5
"""The same for `mjx.solve`, which solves models that `newton` does not know; as exact as 16."""


_SCRATCH = 500
"""Bytes per environment and degree of freedom that a CPU's kernels allocate beside the compiler's
temporaries, and that malloc keeps. Measured with G1, Go1 and cartpole, 64 to 2,048 environments, on
two cores."""


def make(
    model: mujoco.MjModel, substeps: int, fields: tuple[str, ...], late: bool = False
) -> Physics:
    """The MJX engine for a model; see `jaxrl_hw.envs.physics.make_physics`."""
    here = jax.local_devices()[0]  # MJX's default is the first device of all processes
    shared = mjx.put_model(model, here, impl="jax")
    empty = mjx.make_data(model, here, impl="jax")
    bounds = newton.Bounds(
        min(SOLVER_ITERATIONS, int(model.opt.iterations)),
        min(LINESEARCH_ITERATIONS, int(model.opt.ls_iterations)),
        float(model.opt.tolerance),
        newton.lone_rows(model, empty),
    )
    shared = shared.tree_replace(
        {
            "opt.iterations": bounds.iterations,
            "opt.ls_iterations": min(MJX_LINESEARCH_ITERATIONS, int(model.opt.ls_iterations)),
        }
    )
    known = empty._impl.efc_J.size > 0 and newton.suits(model)
    physics_step = _stepper(model, bounds) if known else mjx.step

    nu = int(model.nu)
    implicit = model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    servos = implicit and _are_servos(model)

    def step(params: ModelParams, state: PhysState, ctrl: Array) -> tuple[PhysState, Array]:
        own = shared.replace(**{name: params[name] for name in fields})
        # mjx.Data is large (about 50 kB for a G1): it lives only inside this control step
        data = mjx.make_data(model, here, impl="jax").replace(
            qpos=state.qpos,
            qvel=state.qvel,
            act=state.act,
            qacc_warmstart=state.qacc_warmstart,
            time=state.time,
            ctrl=ctrl_at(ctrl, 0, nu) if late else ctrl,
        )

        def one(data: Any, k: Array) -> tuple[Any, None]:
            held = data.replace(ctrl=ctrl_at(ctrl, k, nu)) if late else data
            return physics_step(_at_limit(model, own, held) if servos else own, held), None

        # TF32 (the default for float32 on recent NVIDIA cards) is too coarse for contact forces
        with jax.default_matmul_precision("highest"):
            data, _ = lax.scan(one, data, jnp.arange(substeps))
        out = PhysState(data.qpos, data.qvel, data.act, data.qacc_warmstart, data.time)
        return out, data.sensordata

    own = _SCRATCH * int(model.nv) if jax.default_backend() == "cpu" else 0
    return Physics("mjx", model, substeps, fields, step, (0, own))


def _stepper(model: mujoco.MjModel, bounds: newton.Bounds) -> Callable[[Any, Any], Any]:
    """A physics step with our own constraint solver."""
    implicit = model.opt.integrator == mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    integrate = mjx.implicit if implicit else mjx.euler

    def step(own: Any, data: Any) -> Any:
        data = mjx.sensor_pos(own, mjx.fwd_position(own, data))
        data = mjx.sensor_vel(own, mjx.fwd_velocity(own, data))
        data = mjx.fwd_acceleration(own, mjx.fwd_actuation(own, data))
        data = newton.solve(mjx.full_m(own, data), data, bounds)
        return integrate(own, mjx.sensor_acc(own, data))

    return step


def _are_servos(model: mujoco.MjModel) -> bool:
    """Whether every actuator is a spring and damper at a joint, as those of all robots are."""
    joints = model.actuator_trntype == mujoco.mjtTrn.mjTRN_JOINT
    affine = model.actuator_biastype == mujoco.mjtBias.mjBIAS_AFFINE
    still = model.actuator_dyntype == mujoco.mjtDyn.mjDYN_NONE
    return bool(np.all(joints & affine & still))


def _at_limit(model: mujoco.MjModel, own: Any, data: Any) -> Any:
    """The MJX model in which a servo at its force limit is a constant force.

    implicitfast integrates an actuator's damping implicitly. C MuJoCo leaves that out where the
    force is clipped, because a clipped force no longer depends on the velocity. MJX does not look
    at forcerange there.
    """
    joint = model.actuator_trnid[:, 0]
    gear = model.actuator_gear[:, 0]
    low, high = model.actuator_ctrlrange.T
    bounded = jnp.clip(data.ctrl, low, high)
    ctrl = jnp.where(model.actuator_ctrllimited.astype(bool), bounded, data.ctrl)
    gain, bias = own.actuator_gainprm, own.actuator_biasprm
    force = (
        gain[:, 0] * ctrl
        + bias[:, 0]
        + bias[:, 1] * gear * data.qpos[model.jnt_qposadr[joint]]
        + bias[:, 2] * gear * data.qvel[model.jnt_dofadr[joint]]
    )
    clipped = jnp.clip(force, own.actuator_forcerange[:, 0], own.actuator_forcerange[:, 1])
    stuck = model.actuator_forcelimited.astype(bool) & (force != clipped)
    constant = jnp.zeros_like(bias).at[:, 0].set(clipped)
    return own.replace(
        actuator_gainprm=jnp.where(stuck[:, None], 0.0, gain),
        actuator_biasprm=jnp.where(stuck[:, None], constant, bias),
    )
