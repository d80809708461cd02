"""What a task and the rollout know of physics: a compact state, and one step function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

ModelParams = dict[str, Array]
"""One environment's own values of MjModel arrays, by MjModel field name (`body_mass`, ...)."""

SERVO_FIELDS = ("actuator_gainprm", "actuator_biasprm", "actuator_forcerange")
"""MjModel arrays that make an actuator a position servo: kp, then (0, -kp, -kd), then its range."""


NJMAX, NACONMAX = "overflow/njmax", "overflow/naconmax"
"""Metrics of an engine that keeps constraints and contacts in arrays of a fixed size: environments
that a control step lost because njmax (constraints of one environment) or naconmax (contacts of
all environments together) was too small."""


class PhysState(NamedTuple):
    """All that MuJoCo needs to continue exactly; everything else of mjData is rebuilt from it."""

    qpos: Array  # [nq] positions: m, unit quaternions (wxyz), rad
    qvel: Array  # [nv] velocities: m/s (world), rad/s (body frame for a free joint)
    act: Array  # [na] actuator activations
    qacc_warmstart: Array  # [nv] last acceleration, where the constraint solver starts
    time: Array  # [] s


class Physics(NamedTuple):
    """An engine and a model.

    step(params, state, ctrl [nu]) -> (state, sensordata [nsensordata])
        advances one environment by one control step (`substeps` physics steps); vmap it. An engine
        of late actions takes a ctrl [2 nu + 1], as `late_ctrl` makes it. As with
        mj_step, the sensordata are those at the start of the last physics step: one physics step
        behind the state. Current ones would cost another forward pass.
    """

    engine: str
    model: Any  # mujoco.MjModel, host side: sizes, names, addresses
    substeps: int
    fields: tuple[str, ...]
    step: Callable[[ModelParams, PhysState, Array], tuple[PhysState, Array]]
    host_bytes: tuple[int, int] = (0, 0)
    """Memory that the engine keeps outside JAX: a fixed part, and a part per environment."""
    watched: Callable[..., tuple[PhysState, Array, dict[str, Array]]] | None = None
    """As `step`, and what overflowed (`NJMAX`, `NACONMAX`), bool [] each; None where nothing can.
    What overflowed is not finite in the state either."""

    def watched_step(
        self, params: ModelParams, state: PhysState, ctrl: Array
    ) -> tuple[PhysState, Array, dict[str, Array]]:
        """As `step`, and what overflowed: nothing, and at no cost, on most engines."""
        if self.watched is None:
            return *self.step(params, state, ctrl), {}
        return self.watched(params, state, ctrl)

    @property
    def control_dt(self) -> float:
        """Seconds per control step."""
        return float(self.model.opt.timestep) * self.substeps


def late_ctrl(before: Array, now: Array, delay: Array) -> Array:
    """The ctrl [2 nu + 1] of an engine whose ctrl changes in the midst of a control step.

    Args:
      before: [nu], what holds at first.
      now: [nu], what holds from there on.
      delay: [], physics steps that `before` holds for; 0 for none.
    """
    return jnp.concatenate([before, now, delay[None].astype(before.dtype)])


def ctrl_at(late: Any, step: Any, nu: int) -> Any:
    """What holds in a physics step, [..., nu], of a late ctrl [..., 2 nu + 1]; 0 is the first."""
    xp = np if isinstance(late, np.ndarray) else jnp
    return xp.where(step < late[..., 2 * nu :], late[..., :nu], late[..., nu : 2 * nu])


def nominal_params(model: Any, fields: tuple[str, ...]) -> ModelParams:
    """The model's own values of the randomized fields, float32."""
    return {name: _float32(getattr(model, name)) for name in fields}


def state_at(model: Any, keyframe: str = "home") -> PhysState:
    """The state of a named keyframe, at rest, at time 0.

    Raises:
      KeyError: the model has no keyframe of that name.
    """
    key = model.key(keyframe)
    return PhysState(
        qpos=_float32(key.qpos),
        qvel=_float32(np.zeros(model.nv)),
        act=_float32(np.zeros(model.na)),
        qacc_warmstart=_float32(np.zeros(model.nv)),
        time=_float32(0.0),
    )


def _float32(values: Any) -> Array:
    """As a JAX array. `jnp.asarray` would compile a program for each shape."""
    return jax.device_put(np.asarray(values, np.float32), may_alias=False)


def sensordata_at(model: Any, keyframe: str = "home") -> np.ndarray:
    """Sensor readings [nsensordata] at a keyframe, by C MuJoCo's mj_forward."""
    import mujoco

    data = mujoco.MjData(model)
    key = model.key(keyframe)
    data.qpos[:] = key.qpos
    data.ctrl[:] = key.ctrl
    mujoco.mj_forward(model, data)
    return np.asarray(data.sensordata, np.float32)


def is_finite(state: PhysState, sensordata: Array) -> Array:
    """Bool []: whether one environment's state and sensors hold numbers only."""
    leaves = [*jax.tree.leaves(state), sensordata]
    return jnp.all(jnp.stack([jnp.isfinite(leaf).all() for leaf in leaves]))


def sensor_slices(model: Any) -> dict[str, slice]:
    """Where each named sensor's readings stand in sensordata."""
    return {
        model.sensor(i).name: slice(int(adr), int(adr + dim))
        for i, (adr, dim) in enumerate(zip(model.sensor_adr, model.sensor_dim, strict=True))
    }


def contact_entries(model: Any) -> np.ndarray | None:
    """Where sensordata count all contacts and those with the floor, int [2].

    The sensors are "contacts" and "floor_contacts"; None for a model without them.
    """
    slices = sensor_slices(model)
    if not {"contacts", "floor_contacts"} <= slices.keys():
        return None
    return np.array([slices["contacts"].start, slices["floor_contacts"].start])
