"""MuJoCo's C engine on CPU threads, called from inside a jitted train step.

One `jax.pure_callback` per control step advances all environments through a `mujoco.batch.Batch`,
a C thread pool that holds one state row per simulation. Only NumPy runs inside the callback: a
JAX operation there would wait for the very computation it interrupts.

A computation with a host callback is never stored in JAX's persistent compilation cache, so what
is slow to compile (the update) is jitted apart from what calls `step` (see
`jaxrl_hw.training.train_step`).
"""

from __future__ import annotations

import contextlib
import copy
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from jax import Array, lax
from mujoco import batch

from jaxrl_hw.envs.physics.api import ModelParams, Physics, PhysState, ctrl_at
from jaxrl_hw.types import DEVICES


class Loop(NamedTuple):
    """What happens in a control step. By default all physics steps hold the same ctrl.

    advance(pool, ctrl [n, width]) -> readings [n, extra], or None where extra is 0
        sets `pool.ctrl` and steps the pool; the readings are appended to the sensordata.
    """

    advance: Callable[[Any, np.ndarray], np.ndarray | None]
    extra: int = 0


def make(
    model: mujoco.MjModel,
    substeps: int,
    fields: tuple[str, ...],
    threads: int = 0,
    loop: Loop | None = None,
    late: bool = False,
) -> Physics:
    """The native engine for a model; see `jaxrl_hw.envs.physics.make_physics`."""
    # inline dispatch: otherwise a callback could wait for the thread that it runs on; takes effect
    # only if no computation has run yet
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    loop = loop or (_changing(substeps, int(model.nu)) if late else _holding(substeps))
    host = _on_host(model, loop, fields, threads)
    nq, nv, na = model.nq, model.nv, model.na
    out_width = 1 + nq + nv + na + nv + model.nsensordata + loop.extra

    def step(params: ModelParams, state: PhysState, ctrl: Array) -> tuple[PhysState, Array]:
        row = jnp.concatenate(
            [state.time[None], state.qpos, state.qvel, state.act, state.qacc_warmstart, ctrl]
        )
        device, devices = _device()
        out = jax.pure_callback(
            partial(host, devices),
            jax.ShapeDtypeStruct((out_width,), jnp.float32),
            {name: params[name] for name in fields},
            row,
            device,
            vmap_method="broadcast_all",
        )
        time, qpos, qvel, act, warmstart, sensordata = jnp.split(
            out, np.cumsum([1, nq, nv, na, nv])
        )
        return PhysState(qpos, qvel, act, warmstart, time[0]), sensordata

    own = _host_bytes(model, fields, threads or _cores())
    return Physics("native", model, substeps, fields, step, own)


def _device() -> tuple[Array | None, int]:
    """The index of the device in `jax.shard_map`, and how many this process has of them; (None, 1)
    outside it."""
    try:
        return lax.axis_index(DEVICES), max(lax.axis_size(DEVICES) // jax.process_count(), 1)
    except NameError:
        return None, 1


def _host_bytes(model: mujoco.MjModel, fields: tuple[str, ...], threads: int) -> tuple[int, int]:
    """The pool: a simulation on every thread, and rows of state and model values for each
    environment, with the copies that a call makes of them."""
    state = mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_INTEGRATION)
    row = int(state) + int(model.nsensordata)
    values = sum(int(np.asarray(getattr(model, name)).size) for name in fields)
    return _PER_THREAD * threads, 8 * (row + values) + 4 * (values + 2 * row)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_PER_THREAD = 4_000_000
"""One mjData and the used part of its arena, bytes; measured with G1."""


def _holding(substeps: int) -> Loop:
    def advance(pool: Any, ctrl: np.ndarray) -> None:
        pool.ctrl[:] = ctrl
        pool.step(nstep=substeps)

    return Loop(advance)


def _changing(substeps: int, nu: int) -> Loop:
    def advance(pool: Any, ctrl: np.ndarray) -> None:
        for k in range(substeps):
            pool.ctrl[:] = ctrl_at(ctrl, k, nu)
            pool.step(nstep=1)

    return Loop(advance)


def _on_host(
    model: mujoco.MjModel, loop: Loop, fields: tuple[str, ...], threads: int
) -> Callable[..., np.ndarray]:
    """The NumPy side: a thread pool per device and batch size, kept between calls.

    The pools are scratch space, not state: every input is written before each step, so results
    are a function of the arguments alone. A pool takes one call at a time. Several devices call at
    once, each from a thread of its own: each has its own pool, with its part of the threads.
    """
    pools: dict[tuple[int, int, int], tuple[Callable[..., np.ndarray], threading.Lock]] = {}
    making = threading.Lock()

    def step(devices: int, params: dict[str, Any], row: Any, device: Any) -> np.ndarray:
        row = np.asarray(row)
        lead = row.shape[:-1]
        n = int(np.prod(lead, dtype=int))
        own = {
            name: np.asarray(params[name]).reshape(n, *getattr(model, name).shape)
            for name in fields
        }
        at = (n, devices, 0 if device is None else int(np.asarray(device).flat[0]))
        with making:
            if at not in pools:
                count = max(threads // devices, 1) if threads else 0
                pools[at] = _make_pool(model, n, loop, fields, min(count, n)), threading.Lock()
        pool, turn = pools[at]
        with turn:
            return pool(own, row.reshape(n, -1)).reshape(*lead, -1)

    return step


class _Quiet:
    """MuJoCo's warnings go nowhere while any pool steps.

    The caller counts diverged simulations (nonfinite_envs). MuJoCo's own warnings would print a
    line for each and write a log file into the current folder. Their handler is the process's, and
    several pools may step at once: the first one in replaces it and the last one out restores it.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._loud = threading.Lock(), 0, None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._loud = mujoco.get_mju_user_warning()
                mujoco.set_mju_user_warning(lambda message: None)
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    mujoco.set_mju_user_warning(self._loud)


_quiet = _Quiet()


def _make_pool(
    model: mujoco.MjModel, n: int, loop: Loop, fields: tuple[str, ...], threads: int
) -> Callable[[dict[str, np.ndarray], np.ndarray], np.ndarray]:
    # one robot is one island: the search for more costs 5 to 10 % of a step
    model = copy.copy(model)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)
    pool = batch.Batch(model, n, threads)
    live = {name: pool.expand(name) for name in fields}
    written = {name: np.full(view.shape, np.nan, np.float32) for name, view in live.items()}
    sensordata = pool.bind("sensordata")
    # mjSTATE_INTEGRATION rows start with time, qpos, qvel, act, (history), warmstart, ctrl;
    # these models have no history, so one slice holds all of it but ctrl
    width = 1 + model.nq + model.nv + model.na + model.nv

    def step(params: dict[str, np.ndarray], row: np.ndarray) -> np.ndarray:
        for name, value in params.items():
            changed = (value != written[name]).reshape(n, -1).any(axis=1)
            if changed.any():  # only environments that were just reset
                written[name][changed] = value[changed]
                live[name][changed] = value[changed]
        pool.state[:, :width] = row[:, :width]
        broken: np.ndarray | None = None
        extra: np.ndarray | None = None
        with _quiet():
            try:
                extra = loop.advance(pool, row[:, width:])
            except batch.SimulationError as error:
                broken = error.ids
        sensed = width + sensordata.shape[1]
        out = np.zeros((n, sensed + loop.extra), np.float32)
        out[:, :width] = pool.state[:, :width]
        out[:, width:sensed] = sensordata
        if extra is not None:
            out[:, sensed:] = extra
        if broken is not None:
            out[broken] = np.nan
        return out

    return step
