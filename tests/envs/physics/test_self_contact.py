"""A robot's own parts push each other apart, alike in every engine, and are counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw import Config
from jaxrl_hw.config.factory import load_task, make_task
from jaxrl_hw.envs.physics.api import contact_entries
from jaxrl_hw.envs.physics.model import check_home_pose, compile_model
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.errors import UserError

LEGGED = ("g1", "g1_12dof", "go1", "go2", "h1", "t1")
CROSSED = {
    "g1": {"left_hip_roll_joint": -0.16, "right_hip_roll_joint": 0.16},
    "g1_12dof": {"left_hip_roll_joint": -0.16, "right_hip_roll_joint": 0.16},
    "go1": {"FR_hip_joint": 0.43, "FL_hip_joint": -0.43},
    "go2": {"FR_hip_joint": 0.5, "FL_hip_joint": -0.5},
    "h1": {"left_hip_roll": -0.21, "right_hip_roll": 0.21},
    "t1": {"Left_Hip_Roll": -0.16, "Right_Hip_Roll": 0.16},
}
"""Joint angles, rad, at which two legs overlap."""


def own_contacts(model: mujoco.MjModel, data: mujoco.MjData) -> list[Any]:
    floor = model.geom("floor").id
    return [contact for contact in data.contact if floor not in contact.geom]


def crossed(model: mujoco.MjModel, robot: str, height: float = 0.5) -> mujoco.MjData:
    """The robot in the air, at rest, with legs that overlap."""
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    data.qpos[2] += height
    for joint, angle in CROSSED[robot].items():
        data.joint(joint).qpos[:] = angle
    mujoco.mj_forward(model, data)
    return data


def deepest(model: mujoco.MjModel, qpos: np.ndarray) -> float:
    """How deep the robot's parts overlap in a pose, m."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_forward(model, data)
    return -min((c.dist for c in own_contacts(model, data)), default=0.0)


def engine_step(compiled: Any, data: mujoco.MjData) -> tuple[np.ndarray, np.ndarray]:
    """qpos and sensordata of an engine one control step after a pose at rest, targets held."""
    task = compiled.task
    start = compiled.starts(jax.random.split(jax.random.key(0), 1))
    params = jax.tree.map(
        lambda leaf, nominal: jnp.asarray(nominal)[None].astype(leaf.dtype),
        start.params,
        {name: getattr(compiled.physics.model, name) for name in start.params},
    )
    state = jax.tree.map(jnp.zeros_like, start.physics)
    state = state._replace(qpos=jnp.asarray(data.qpos, jnp.float32)[None])
    ctrl = jnp.asarray(compiled.physics.model.key("home").ctrl, jnp.float32)[None]
    after, sensed = compiled.step(params, state, ctrl)
    assert task.action_size == ctrl.shape[1]
    return np.asarray(after.qpos[0]), np.asarray(sensed[0])


@pytest.mark.parametrize("robot", LEGGED)
def test_nothing_touches_at_home_and_crossed_legs_do(robot: str) -> None:
    _, model = load_task(Config(robot=robot))
    home = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, home, model.key("home").id)
    mujoco.mj_forward(model, home)
    assert not own_contacts(model, home)
    data = crossed(model, robot)
    touching = own_contacts(model, data)
    assert touching
    every, floor = data.sensordata[contact_entries(model)]
    assert (every, floor) == (len(touching), 0)


@pytest.mark.parametrize("robot", LEGGED)
def test_crossed_legs_push_apart_in_the_native_engine(compiled: Any, robot: str) -> None:
    check_pushes_apart(compiled(robot, "native"), robot)


@pytest.mark.slow
def test_crossed_legs_push_apart_alike_in_mjx_and_in_c(compiled: Any) -> None:
    """G1 with legs only: the engines share shapes and pairs, whatever the robot."""
    native = check_pushes_apart(compiled("g1_12dof", "native"), "g1_12dof")
    on_mjx = check_pushes_apart(compiled("g1_12dof", "mjx"), "g1_12dof")
    np.testing.assert_allclose(on_mjx[0], native[0], atol=2e-3)
    entries = contact_entries(compiled("g1_12dof", "native").physics.model)
    np.testing.assert_allclose(on_mjx[1][entries], native[1][entries], atol=1.0)


def check_pushes_apart(compiled: Any, robot: str) -> tuple[np.ndarray, np.ndarray]:
    model = compiled.physics.model
    data = crossed(model, robot)
    before = deepest(model, data.qpos)
    qpos, sensed = engine_step(compiled, data)
    assert before > 2e-3
    assert deepest(model, qpos) < 0.8 * before
    return qpos, sensed


def test_an_arm_stops_at_the_hip() -> None:
    model = load_task(Config(robot="g1"))[1]
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    data.qpos[2] += 1.0
    model.opt.gravity[:] = 0.0
    data.ctrl[model.actuator("left_shoulder_roll_joint").id] = -0.6
    data.ctrl[model.actuator("left_elbow_joint").id] = 1.5
    data.ctrl[model.actuator("left_shoulder_pitch_joint").id] = 0.3
    touched = False
    for _ in range(round(1.0 / model.opt.timestep)):
        mujoco.mj_step(model, data)
        touched = touched or any(
            "left_" in model.geom(c.geom[i]).name for c in own_contacts(model, data) for i in (0, 1)
        )
        assert deepest(model, data.qpos) < 0.01
    assert touched


def test_a_shifted_centre_of_mass_loses_no_contact() -> None:
    """MuJoCo's midphase hangs its boxes on the centre of mass: it is off in every engine."""
    physics = make_task(Config(robot="g1_12dof"))[1]
    model = physics.model
    data = mujoco.MjData(model)

    def contacts() -> int:
        mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
        data.qpos[2] -= 0.002
        mujoco.mj_forward(model, data)
        return int(data.ncon)

    assert contacts() == 8
    for side in ("left", "right"):
        model.body(f"{side}_ankle_roll_link").ipos[2] += 0.02
    assert contacts() == 8
    model.opt.disableflags &= ~int(mujoco.mjtDisableBit.mjDSBL_MIDPHASE)
    assert contacts() < 8, "MuJoCo has mended it: the flag costs nothing, but is not needed"


def test_a_robot_whose_parts_overlap_at_home_is_refused_with_names_and_depth(
    tmp_path: Path,
) -> None:
    spec = mujoco.MjSpec.from_file(str(get_robot("go1").mjcf))
    for name in ("FR_calf", "FL_calf"):
        spec.geom(name).size[0] = 0.14
    file = tmp_path / "wide.xml"
    file.write_text(spec.to_xml())
    model = compile_model(file)
    with pytest.raises(UserError, match=r"F[RL]_calf.*F[RL]_calf.*mm"):
        check_home_pose(model, "wide")
