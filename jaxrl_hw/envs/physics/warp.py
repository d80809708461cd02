"""MuJoCo Warp: MuJoCo's pipeline as Warp kernels, called from a jitted train step; for CUDA.

It runs on a CPU too, where the C engine is many times faster. Its results do not repeat to the bit
on a GPU: threads add up in the order in which they come. Needs the package warp-lang, which
`pip install "jaxrl_hw[warp]"` brings.
"""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
from jax import Array, lax
from jax.custom_batching import custom_vmap

from jaxrl_hw.envs.physics.api import (
    NACONMAX,
    NJMAX,
    ModelParams,
    Physics,
    PhysState,
    ctrl_at,
)
from jaxrl_hw.envs.physics.stderr import without_lines
from jaxrl_hw.envs.physics.warp_memory import scratch_bytes
from jaxrl_hw.errors import UserError

if importlib.util.find_spec("warp") is not None:
    import warp

    warp.config.log_level = warp.LOG_WARNING  # else it names its devices and every kernel on stdout

with contextlib.redirect_stdout(io.StringIO()):  # it says twice where warp is missing
    from mujoco import mjx

SOLVER_ITERATIONS = 16
LINESEARCH_ITERATIONS = 16
"""Bounds on Warp's solver, which leaves out the environments that have converged, so that generous
ones cost little. How exact they are: benchmarks/physics_settings.py --engine warp."""
_ONLY_IN_C = mujoco.mjtDisableBit.mjDSBL_AUTORESET | mujoco.mjtDisableBit.mjDSBL_MIDPHASE
"""Flags that switch off what Warp does not have."""
_OF_ROWS, _OF_CONTACTS = 1 << 0 | 1 << 1, 1 << 2 | 1 << 3 | 1 << 4
"""Bits of `overflow` in Warp's data, as its OverflowType has them: constraints or their nonzeros;
contacts in the broad phase, the narrow phase or the search for convex ones."""

_NO_DRIVER = b"Could not find or load the NVIDIA CUDA driver"
"""Warp says so at its start, on every computer without a GPU."""

Watched = tuple[PhysState, Array, dict[str, Array]]
"""State, sensordata and overflows."""


class Room(NamedTuple):
    """What Warp's arrays have place for, per environment."""

    contacts: int  # those of all environments share one array: naconmax
    rows: int  # of constraints: njmax


def is_installed() -> bool:
    """Whether MJX found Warp."""
    return bool(mjx.warp.WARP_INSTALLED)


def make(
    model: mujoco.MjModel,
    substeps: int,
    fields: tuple[str, ...],
    late: bool = False,
    room: Room | None = None,
) -> Physics:
    """The Warp engine for a model; see `jaxrl_hw.envs.physics.make_physics`.

    Warp keeps the contacts of all environments in one array, and each environment's constraints in
    rows of one length. Where a step needs more than there is room for, it counts as diverged and is
    reported (`_checked`).

    room: None for as much as the model's geometry can need, by MJX's count.

    Raises:
      UserError: Warp is not installed.
    """
    if not is_installed():
        raise UserError(
            "--physics warp needs the package warp-lang, which is not installed: "
            'pip install "jaxrl_hw[warp]", or use --physics mjx'
        )
    with without_lines(_NO_DRIVER):
        warp.init()
    model_here, shared = _on_warp(model)
    contacts, rows = _room(model) if room is None else room
    nu = int(model.nu)

    def together(n: int, params: Any, state: PhysState, ctrl: Array) -> Watched:
        """A control step of n environments, every leaf [n, ...]."""

        def one(params: ModelParams, state: PhysState, ctrl: Array) -> Any:
            own = shared.replace(**{name: params[name] for name in fields})
            # Data is large, and its contacts have no axis of environments: it lives only here
            data = mjx.make_data(
                model_here, impl="warp", naconmax=n * contacts, njmax=rows
            ).replace(**state._asdict())

            def substep(data: Any, number: Array) -> tuple[Any, None]:
                held = ctrl_at(ctrl, number, nu) if late else ctrl
                return mjx.step(own, data.replace(ctrl=held)), None

            data, _ = lax.scan(substep, data, jnp.arange(substeps))
            return data

        return _checked(jax.vmap(one)(params, state, ctrl))

    watched = _side_by_side(together, fields)

    def step(params: ModelParams, state: PhysState, ctrl: Array) -> tuple[PhysState, Array]:
        return watched(params, state, ctrl)[:2]

    outside = (0, scratch_bytes(shared, contacts, rows))
    return Physics("warp", model, substeps, fields, step, outside, watched)


def _on_warp(model: mujoco.MjModel) -> tuple[mujoco.MjModel, Any]:
    """A copy of the model with nothing that Warp does not have, and the same as Warp's."""
    model_here = copy.copy(model)
    model_here.opt.disableflags &= ~int(_ONLY_IN_C)
    shared = mjx.put_model(model_here, impl="warp").tree_replace(
        {
            "opt.iterations": min(SOLVER_ITERATIONS, int(model.opt.iterations)),
            "opt.ls_iterations": min(LINESEARCH_ITERATIONS, int(model.opt.ls_iterations)),
            "opt._impl.warn_overflow": 0,  # it would print from the kernels, at every step
        }
    )
    return model_here, shared


def _room(model: mujoco.MjModel) -> Room:
    """For as many contacts and constraints as MJX finds possible."""
    most = mjx.make_data(model, impl="jax")._impl
    return Room(max(1, int(most.ncon)), max(1, int(most.nefc)))


def _checked(data: Any) -> Watched:
    """State and sensordata of environments [n, ...], NaN where contacts or constraints were lost in
    any physics step since the data were made, and which these are.

    Of constraints Warp counts each environment's own, so that the others go on. Of contacts it
    counts those of all environments together and writes down none that it drops: nobody can tell
    whose they were, so it flags all environments, and all are lost.
    """
    state = PhysState(data.qpos, data.qvel, data.act, data.qacc_warmstart, data.time)
    bits = data._impl.overflow.reshape(-1)
    overflows = {
        NJMAX: bits & _OF_ROWS != 0,
        NACONMAX: bits & _OF_CONTACTS != 0,
    }
    lost = overflows[NJMAX] | overflows[NACONMAX]

    def broken(leaf: Array) -> Array:
        return jnp.where(lost.reshape(-1, *([1] * (leaf.ndim - 1))), jnp.nan, leaf)

    return jax.tree.map(broken, state), broken(data.sensordata), overflows


def _side_by_side(together: Any, fields: tuple[str, ...]) -> Any:
    """The step of one environment, which all environments of a vmap take in one call.

    together: (n, params, state, ctrl), every leaf [n, ...].
    """

    def batch_of(tree: Any, batched: Any, size: int) -> Any:
        return jax.tree.map(
            lambda leaf, has: leaf if has else jnp.broadcast_to(leaf, (size, *leaf.shape)),
            tree,
            batched,
        )

    @custom_vmap
    def many(params: ModelParams, state: PhysState, ctrl: Array) -> Watched:
        return together(ctrl.shape[0], params, state, ctrl)

    @many.def_vmap
    def of_nested(size: int, batched: Any, *args: Any) -> Any:
        whole = batch_of(args, tuple(batched), size)
        flat = jax.tree.map(lambda leaf: leaf.reshape(size * leaf.shape[1], *leaf.shape[2:]), whole)
        out = many(*flat)
        shaped = jax.tree.map(
            lambda leaf: leaf.reshape(size, len(leaf) // size, *leaf.shape[1:]), out
        )
        return shaped, jax.tree.map(lambda leaf: True, shaped)

    @custom_vmap
    def step(params: ModelParams, state: PhysState, ctrl: Array) -> Watched:
        row = jax.tree.map(lambda leaf: leaf[None], (params, state, ctrl))
        return jax.tree.map(lambda leaf: leaf[0], many(*row))

    @step.def_vmap
    def of_many(size: int, batched: Any, *args: Any) -> Any:
        out = many(*batch_of(args, tuple(batched), size))
        return out, jax.tree.map(lambda leaf: True, out)

    return lambda params, state, ctrl: step({n: params[n] for n in fields}, state, ctrl)
