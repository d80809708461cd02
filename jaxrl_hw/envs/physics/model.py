"""MJCF to a model for training: the same mechanics, without visual geoms."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np


def compile_model(
    mjcf: Path,
    timestep: float | None = None,
    *,
    visuals: bool = False,
    self_collision: bool = True,
) -> mujoco.MjModel:
    """Compile an MJCF file.

    Args:
      timestep: physics step, s; None keeps the file's.
      visuals: keep geoms that collide with nothing. Dropping them shortens every physics step
        (their poses are computed each time) and is done only where masses do not come from them.
      self_collision: keep the file's contact pairs, by which a robot's parts meet each other.

    Raises:
      ValueError: MuJoCo could not compile the file.
    """
    model = _compile(mjcf, timestep, self_collision, drop=())
    if visuals:
        return model
    try:
        lean = _compile(mjcf, timestep, self_collision, drop=_visual_geoms(model))
    except ValueError:  # a body whose mass is all in geoms that touch nothing
        return model
    same = np.array_equal(lean.body_mass, model.body_mass) and np.array_equal(
        lean.body_inertia, model.body_inertia
    )
    return lean if same else model


def _compile(
    mjcf: Path, timestep: float | None, self_collision: bool, drop: tuple[int, ...]
) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_file(str(mjcf))
    if not self_collision:
        for pair in list(spec.pairs):
            spec.delete(pair)
    for geom in [g for i, g in enumerate(spec.geoms) if i in drop]:
        spec.delete(geom)
    model = spec.compile()
    if timestep is not None:
        model.opt.timestep = timestep
    # a diverged simulation must show as NaN and be counted, not be reset silently
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    return model


def _visual_geoms(model: mujoco.MjModel) -> tuple[int, ...]:
    """Indices of geoms that no contact rule reaches and no sensor or pair names."""
    paired = set(model.pair_geom1) | set(model.pair_geom2)
    geom = int(mujoco.mjtObj.mjOBJ_GEOM)
    sensed = set(model.sensor_objid[model.sensor_objtype == geom])
    sensed |= set(model.sensor_refid[model.sensor_reftype == geom])
    mute = (model.geom_contype == 0) & (model.geom_conaffinity == 0)
    return tuple(int(i) for i in np.flatnonzero(mute) if i not in paired and i not in sensed)
