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

BOUNDS = (8, 3)
"""Iterations of the solver, and trips of its line search, for a robot that names none of its own.
C MuJoCo stops each simulation when it has converged; here all environments go on until the slowest
has, and on an accelerator always to the bound, so that the host never has to look.
`RobotSpec.mjx_bounds` holds those that benchmarks/physics_settings.py found to do for a robot."""
MJX_LINESEARCH_ITERATIONS = 5
"""The same for `mjx.solve`, which solves models that `newton` does not know; as exact as 16."""


_SCRATCH = 500
"""Bytes per environment and degree of freedom that a CPU's kernels allocate beside the compiler's
temporaries, and that malloc keeps. Measured with G1, Go1 and cartpole, 64 to 2,048 environments, on
two cores."""


def make(
    model: mujoco.MjModel,
    substeps: int,
    fields: tuple[str, ...],
    late: bool = False,
    bounds: tuple[int, int] | None = None,
) -> Physics:
    """The MJX engine for a model; see `jaxrl_hw.envs.physics.make_physics`."""
    here = jax.local_devices()[0]  # MJX's default is the first device of all processes
    shared = mjx.put_model(model, here, impl="jax")
    empty = mjx.make_data(model, here, impl="jax")
    iterations, trips = bounds or BOUNDS
    limits = newton.Bounds(
        min(iterations, int(model.opt.iterations)),
        min(trips, int(model.opt.ls_iterations)),
        float(model.opt.tolerance),
        newton.lone_rows(model, empty),
    )
    shared = shared.tree_replace(
        {
            "opt.iterations": limits.iterations,
            "opt.ls_iterations": min(MJX_LINESEARCH_ITERATIONS, int(model.opt.ls_iterations)),
        }
    )
    known = empty._impl.efc_J.size > 0 and newton.suits(model)
    forward = _forward(limits) if known else mjx.forward
    integrate = _integrator(model)
    nu = int(model.nu)

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
            return integrate(own, forward(own, held)), None

        # TF32 (the default for float32 on recent NVIDIA cards) is too coarse for contact forces
        with jax.default_matmul_precision("highest"):
            data, _ = lax.scan(one, data, jnp.arange(substeps))
        out = PhysState(data.qpos, data.qvel, data.act, data.qacc_warmstart, data.time)
        return out, data.sensordata

    own = _SCRATCH * int(model.nv) if jax.default_backend() == "cpu" else 0
    return Physics("mjx", model, substeps, fields, step, (0, own))


def _forward(bounds: newton.Bounds) -> Callable[[Any, Any], Any]:
    """`mjx.forward` with our own constraint solver."""

    def forward(own: Any, data: Any) -> Any:
        data = mjx.sensor_pos(own, mjx.fwd_position(own, data))
        data = mjx.sensor_vel(own, mjx.fwd_velocity(own, data))
        data = mjx.fwd_acceleration(own, mjx.fwd_actuation(own, data))
        data = newton.solve(mjx.full_m(own, data), data, bounds)
        return mjx.sensor_acc(own, data)

    return forward


def _integrator(model: mujoco.MjModel) -> Callable[[Any, Any], Any]:
    """What follows `forward` in a physics step: (MJX model, data) -> data.

    implicitfast integrates the damping of actuators implicitly. MJX does so as if no actuator had a
    limit. Here it is as in C MuJoCo 4: an actuator whose force is clipped has no damping, because a
    clipped force does not depend on the velocity, and damping that grows with ctrl is that of the
    ctrl within its range. MuJoCo 3 looks at forcerange but not at a joint's actuatorfrcrange. A
    tendon's actuatorfrcrange is not looked at here; MuJoCo 4 does.
    """
    if model.opt.integrator == mujoco.mjtIntegrator.mjINT_EULER:
        return mjx.euler
    if model.opt.integrator == mujoco.mjtIntegrator.mjINT_RK4:
        return mjx.rungekutta4
    affine = model.actuator_gaintype == mujoco.mjtGain.mjGAIN_AFFINE
    clamps = not model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_CLAMPCTRL
    bounded = affine & model.actuator_ctrllimited.astype(bool) & clamps
    limited = model.actuator_forcelimited.any() or model.jnt_actfrclimited.any()

    def implicit(own: Any, data: Any) -> Any:
        if bounded.any():
            inside = jnp.clip(data.ctrl, *own.actuator_ctrlrange.T)
            data = data.replace(ctrl=jnp.where(bounded, inside, data.ctrl))
        return mjx.implicit(_undamped_at_limit(model, own, data) if limited else own, data)

    return implicit


def _undamped_at_limit(model: mujoco.MjModel, own: Any, data: Any) -> Any:
    """The MJX model without the actuators whose force is clipped, for `mjx.implicit` only.

    data: after `forward`. Clipped is what is at its forcerange, and what drives a joint whose sum
    of actuator forces is at the joint's actuatorfrcrange.
    """
    clipped = _at_limit(model.actuator_forcelimited, own.actuator_forcerange, data.actuator_force)
    if model.jnt_actfrclimited.any():
        kinds = (mujoco.mjtTrn.mjTRN_JOINT, mujoco.mjtTrn.mjTRN_JOINTINPARENT)
        drives = np.isin(model.actuator_trntype, kinds)
        joint = np.where(drives, model.actuator_trnid[:, 0], 0)
        limited = drives & model.jnt_actfrclimited[joint].astype(bool)
        total = data.qfrc_actuator[model.jnt_dofadr[joint]]
        clipped |= _at_limit(limited, own.jnt_actfrcrange[joint], total)
    return own.replace(
        actuator_gainprm=jnp.where(clipped[:, None], 0.0, own.actuator_gainprm),
        actuator_biasprm=jnp.where(clipped[:, None], 0.0, own.actuator_biasprm),
    )


def _at_limit(limited: np.ndarray, bounds: Array, force: Array) -> Array:
    """Which forces [n] are at their bounds [n, 2], of those that are limited [n]."""
    at = (force <= bounds[:, 0]) | (force >= bounds[:, 1])
    return jnp.asarray(limited, bool) & at
