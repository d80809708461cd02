"""MJCF to a model for training: the same mechanics, without visual geoms."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np

from jaxrl_hw.errors import UserError

OVERLAP = 1e-3
"""Parts of a robot may overlap by so much in its home pose, m."""


def compile_model(
    mjcf: Path,
    timestep: float | None = None,
    *,
    visuals: bool = False,
) -> mujoco.MjModel:
    """Compile an MJCF file.

    Args:
      timestep: physics step, s; None keeps the file's.
      visuals: keep geoms that collide with nothing. Dropping them shortens every physics step
        (their poses are computed each time) and is done only where masses do not come from them.

    Raises:
      ValueError: MuJoCo could not compile the file.
    """
    model = _compile(mjcf, timestep, drop=())
    if visuals:
        return model
    try:
        lean = _compile(mjcf, timestep, drop=_visual_geoms(model))
    except ValueError:  # a body whose mass is all in geoms that touch nothing
        return model
    same = np.array_equal(lean.body_mass, model.body_mass) and np.array_equal(
        lean.body_inertia, model.body_inertia
    )
    return lean if same else model


def _compile(mjcf: Path, timestep: float | None, drop: tuple[int, ...]) -> mujoco.MjModel:
    spec = mujoco.MjSpec.from_file(str(mjcf))
    for geom in [g for i, g in enumerate(spec.geoms) if i in drop]:
        spec.delete(geom)
    model = spec.compile()
    if timestep is not None:
        model.opt.timestep = timestep
    # a diverged simulation must show as NaN and be counted, not be reset silently
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    # the midphase's boxes hang on the bodies' centres of mass: where `body_ipos` is randomized they
    # move away from the shapes, and contacts are lost
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    return model


def check_home_pose(model: mujoco.MjModel, robot: str) -> None:
    """Refuse a robot whose parts overlap in the keyframe "home": they would burst apart.

    Raises:
      UserError: names the two deepest parts and how deep they are, mm.
    """
    if "home" not in {model.key(i).name for i in range(model.nkey)}:
        return
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_collision(model, data)
    own = [c for c in data.contact if 0 not in model.body_rootid[model.geom_bodyid[c.geom]]]
    deepest = min(own, key=lambda c: c.dist, default=None)
    if deepest is None or deepest.dist > -OVERLAP:
        return
    one, other = (_geom_name(model, geom) for geom in deepest.geom)
    raise UserError(
        f'robot "{robot}": {one} and {other} overlap by {-1e3 * deepest.dist:.1f} mm in the '
        f"keyframe home, allowed are {1e3 * OVERLAP:g} mm: shrink a shape or change the pose"
    )


def _geom_name(model: mujoco.MjModel, geom: int) -> str:
    name = model.geom(geom).name
    return name or f"a shape of {model.body(model.geom_bodyid[geom]).name}"


def _visual_geoms(model: mujoco.MjModel) -> tuple[int, ...]:
    """Indices of geoms that no contact rule reaches and no sensor or pair names."""
    paired = set(model.pair_geom1) | set(model.pair_geom2)
    geom = int(mujoco.mjtObj.mjOBJ_GEOM)
    sensed = set(model.sensor_objid[model.sensor_objtype == geom])
    sensed |= set(model.sensor_refid[model.sensor_reftype == geom])
    mute = (model.geom_contype == 0) & (model.geom_conaffinity == 0)
    return tuple(int(i) for i in np.flatnonzero(mute) if i not in paired and i not in sensed)
