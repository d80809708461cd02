"""What MuJoCo Warp's kernels take beside JAX's arrays: scratch space, from Warp's own pool.

A physics step has stages, each with its own scratch, which is given back before the next begins:
the stage that takes the most counts. Sizes are those of the arrays that mujoco_warp makes, as
mujoco-mjx 3.17 has it; soft bodies and models of more than 700 geoms take more.
"""

from __future__ import annotations

import math
from typing import Any

import mujoco

_INT, _VEC3 = 4, 12
_PLANE, _SPHERE, _CAPSULE, _CYLINDER, _BOX, _MESH = (
    int(getattr(mujoco.mjtGeom, f"mjGEOM_{name}"))
    for name in ("PLANE", "SPHERE", "CAPSULE", "CYLINDER", "BOX", "MESH")
)
_SPHERES = {(_SPHERE, other) for other in (_SPHERE, _CAPSULE, _CYLINDER, _BOX)}
_FORMULAS = _SPHERES | {(_CAPSULE, _CAPSULE), (_CAPSULE, _BOX)}
"""Pairs of geoms that, as those with a plane, need no search for their contacts."""


def scratch_bytes(model: Any, contacts: int, rows: int) -> int:
    """Bytes per environment: the most that a stage of a physics step takes.

    model: as MJX has put it for Warp.
    contacts, rows: room for each environment's contacts and constraints.
    """
    solving, sensing = _solver(model, rows), _contact_sensors(model)
    return max(_collision(model, contacts), solving, _integration(model), sensing)


def _collision(model: Any, contacts: int) -> int:
    """`create_collision_context` and, where there are pairs to search, `convex_narrowphase`."""
    pairs, flags = _convex_pairs(model), int(model.opt.disableflags)
    each = 2 * 2 * _INT + _INT
    if not pairs:
        return contacts * each
    boxes = pairs.get((_BOX, _BOX), 0)
    iterations = 16 if boxes == sum(pairs.values()) else int(model.opt._impl.ccd_iterations)
    vertices, faces, horizon = 10 + 2 * iterations, 6 + 5 * iterations, 24
    each += (_VEC3 + _INT) * vertices + (_VEC3 + 2 * _INT) * faces + _INT * horizon
    sides, degree = (4, 3) if boxes else (0, 0)
    if not flags & mujoco.mjtDisableBit.mjDSBL_MULTICCD:
        round_ = {(_CYLINDER, _CYLINDER), (_CYLINDER, _BOX), (_CYLINDER, _MESH)}
        flat = {(_MESH, _MESH), (_BOX, _MESH), (_CAPSULE, _MESH)}
        at_least = 16 if pairs.keys() & (round_ | {(_CAPSULE, _CYLINDER)}) else sides
        if at_least == 16 or pairs.keys() & flat:
            sides = max(at_least, 4 if (_BOX, _MESH) in pairs else 0, model._impl.npolygonmax)
            degree = max(3, model._impl.nmeshdegmax)
    return contacts * (each + sides * (7 * _VEC3 + _INT) + degree * (3 * _VEC3 + 2 * _INT))


def _convex_pairs(model: Any) -> dict[tuple[int, int], int]:
    """How many pairs of geoms have contacts that Warp searches for, by their types."""
    counts = model._impl.geom_pair_type_count  # the upper triangle of a matrix, row by row
    kinds = range((math.isqrt(8 * len(counts) + 1) - 1) // 2)
    pairs = ((one, other) for one in kinds for other in kinds[one:])
    found = dict(zip(pairs, counts, strict=True))
    box_formula = int(model.opt.disableflags) & mujoco.mjtDisableBit.mjDSBL_NATIVECCD
    skip = _FORMULAS | ({(_BOX, _BOX)} if box_formula else set())
    return {pair: n for pair, n in found.items() if n and pair[0] != _PLANE and pair not in skip}


def _solver(model: Any, rows: int) -> int:
    """`_create_solver_context`: vectors over constraints and over degrees of freedom, scalars, and
    Newton's matrix, twice where it is factorized in blocks."""
    nv, padded = model.nv, model._impl.nv_pad
    newton = model.opt.solver == mujoco.mjtSolver.mjSOL_NEWTON
    tracked = newton and model.opt.cone != mujoco.mjtCone.mjCONE_ELLIPTIC
    per_row = 2 * _INT + _VEC3 + (_INT if tracked else 0)
    vectors = _INT * (padded + 2 * nv) + 7 * _INT + 3 + (2 * _INT if tracked else 0)
    matrices = (2 if nv > 32 else 1) * _INT * padded**2 if newton else _INT * (padded + 2 * nv + 1)
    return rows * per_row + vectors + matrices


def _integration(model: Any) -> int:
    """`implicit`: the matrix of implicitfast, its factor, and vectors."""
    nv = model.nv
    return _INT * (model.nM + nv**2 + 3 * nv + model.nu)


def _contact_sensors(model: Any) -> int:
    """`_eval_sensor_contact`: the contacts that match each sensor."""
    sensors = int((model.sensor_type == mujoco.mjtSensor.mjSENS_CONTACT).sum())
    return sensors * _INT * (1 + 3 * int(model.opt._impl.contact_sensor_maxmatch))
