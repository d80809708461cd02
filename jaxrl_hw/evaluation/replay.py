"""An episode as data for a viewer: the robot's primitives, and where they are in every frame."""

from __future__ import annotations

import base64
from typing import Any

import mujoco
import numpy as np

from jaxrl_hw.evaluation.film import Take

SHAPES = {
    int(mujoco.mjtGeom.mjGEOM_SPHERE): "sphere",
    int(mujoco.mjtGeom.mjGEOM_CAPSULE): "capsule",
    int(mujoco.mjtGeom.mjGEOM_ELLIPSOID): "ellipsoid",
    int(mujoco.mjtGeom.mjGEOM_CYLINDER): "cylinder",
    int(mujoco.mjtGeom.mjGEOM_BOX): "box",
}
_MESH = int(mujoco.mjtGeom.mjGEOM_MESH)
_HIDDEN_GROUP = 3
"""Geoms of this group and higher ones are not for the eye, as in MuJoCo's own viewers."""
_UNSET = np.array([0.5, 0.5, 0.5, 1.0])
"""MuJoCo's colour of a geom without one: then its material's shows."""
_STEPS = 32767
"""Of a 16-bit integer on either side of zero."""


def replay_of(model: mujoco.MjModel, take: Take) -> dict[str, Any]:
    """What a viewer needs of an episode's first robot; all of it is JSON.

    model: with the geoms that are to be seen.

    Returns:
      frame_s: time between frames, s. frames, bodies: numbers of them.
      geoms: each its body's number, shape (sphere, capsule, ellipsoid, cylinder or box), half sizes
        [3] m, place [3] m and quaternion [4] wxyz in the body's frame, colour [4] from 0 to 1.
      poses: base64 of int16 [frames, bodies, 7], little endian: place in units of `unit` m, then
        quaternion wxyz in units of 1/32767, both in the world frame. Body 0 is the world.
      focus: the body to look at. fell: frames in which the robot fell. texts: the command in words
        per frame, empty for a task without commands.
    """
    trajectory, steps = take.trajectory, list(take.frames)
    drawn = [geom for geom in range(model.ngeom) if _is_drawn(model, geom)]
    places, quats = _body_poses(model, trajectory.qpos[steps, 0])
    unit = max(1e-6, float(np.abs(places).max())) / _STEPS
    poses = np.concatenate([places / unit, quats * _STEPS], axis=-1).round().astype("<i2")
    fell = np.flatnonzero(trajectory.fell[:, 0])
    moves = np.flatnonzero(model.body_dofnum > 0)
    return {
        "frame_s": take.frame_s,
        "frames": len(steps),
        "bodies": model.nbody,
        "unit": unit,
        "poses": base64.b64encode(poses.tobytes()).decode(),
        "geoms": [_geom(model, geom) for geom in drawn],
        "focus": int(moves[0]) if len(moves) else 0,
        "fell": sorted({int(np.searchsorted(steps, step)) for step in fell if step <= steps[-1]}),
        "texts": [take.texts[i] for i in steps] if trajectory.task == "joystick" else [],
    }


def _is_drawn(model: mujoco.MjModel, geom: int) -> bool:
    known = int(model.geom_type[geom]) in (*SHAPES, _MESH)
    return bool(known and model.geom_group[geom] < _HIDDEN_GROUP and _colour(model, geom)[3] > 0)


def _colour(model: mujoco.MjModel, geom: int) -> np.ndarray:
    material, own = model.geom_matid[geom], model.geom_rgba[geom]
    shows_material = material >= 0 and np.allclose(own, _UNSET)
    return np.asarray(model.mat_rgba[material] if shows_material else own)


def _geom(model: mujoco.MjModel, geom: int) -> dict[str, Any]:
    """One geom; a mesh becomes the box that encloses it."""
    size, place, quat = model.geom_size[geom], model.geom_pos[geom], model.geom_quat[geom]
    kind = int(model.geom_type[geom])
    if kind == _MESH:
        offset = np.zeros(3)
        mujoco.mju_rotVecQuat(offset, model.geom_aabb[geom, :3], quat)
        size, place = model.geom_aabb[geom, 3:], place + offset
    figures = {"size": size, "place": place, "quat": quat, "colour": _colour(model, geom)}
    rounded = {name: np.round(x, 5).tolist() for name, x in figures.items()}
    return {"body": int(model.geom_bodyid[geom]), "shape": SHAPES.get(kind, "box"), **rounded}


def _body_poses(model: mujoco.MjModel, qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places [F, B, 3] m and quaternions [F, B, 4] wxyz of all bodies for poses [F, nq]."""
    data = mujoco.MjData(model)
    places = np.empty((len(qpos), model.nbody, 3))
    quats = np.empty((len(qpos), model.nbody, 4))
    for i, pose in enumerate(qpos):
        data.qpos[:] = pose
        mujoco.mj_kinematics(model, data)
        places[i], quats[i] = data.xpos, data.xquat
    return places, quats
