"""G1 of which only the feet collide, as in MuJoCo Playground's: a robot for versus_brax.py alone.

    python -m jaxrl_hw.train --robot feet_only        # from inside this folder

Of g1's pairs of shapes that meet, one of hand and thigh on each side and the one of the feet stay,
because Playground's model has those three too. Masses, joints and motors are g1's. Integrator and
bounds of the solver are those of Playground's g1_mjx_feetonly.xml.
"""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

import mujoco

from jaxrl_hw import register_robot
from jaxrl_hw.envs.robots.g1.presets import PRESETS
from jaxrl_hw.envs.robots.g1.spec import SPEC

KEPT = ({"left_hand", "left_thigh"}, {"right_hand", "right_thigh"}, {"left_foot", "right_foot"})
"""Pairs of g1's shapes that may meet. Beside them soles meet the floor."""

_FOLDER = tempfile.TemporaryDirectory(prefix="feet-only-")  # removed when the process ends


def _written() -> Path:
    spec = mujoco.MjSpec.from_file(str(SPEC.mjcf))
    for pair in list(spec.pairs):
        if {pair.geomname1, pair.geomname2} not in KEPT:
            spec.delete(pair)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_EULERDAMP
    spec.option.iterations, spec.option.ls_iterations = 3, 5
    spec.compile()
    path = Path(_FOLDER.name) / "g1.xml"
    path.write_text(spec.to_xml(), encoding="utf-8")
    return path


ROBOT = dataclasses.replace(SPEC, name="g1_feet_only", mjcf=_written(), other_mjcf=None)
register_robot(ROBOT, presets=PRESETS)
