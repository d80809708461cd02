"""The other model of a robot: the same machine with other shapes, floor and armature."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.physics.api import sensor_slices
from jaxrl_hw.envs.physics.model import check_home_pose, compile_model
from jaxrl_hw.envs.robots import get_robot, robot_names

ROBOTS = [name for name in robot_names() if get_robot(name).other_mjcf is not None]

CROSSED = {
    "g1": {"left_hip_roll_joint": -0.16, "right_hip_roll_joint": 0.16},
    "g1_12dof": {"left_hip_roll_joint": -0.16, "right_hip_roll_joint": 0.16},
    "go1": {"FR_hip_joint": 0.5, "FL_hip_joint": -0.5},
    "go2": {"FR_hip_joint": 0.6, "FL_hip_joint": -0.6},
    "h1": {"left_hip_roll": -0.21, "right_hip_roll": 0.21},
    "t1": {"Left_Hip_Roll": -0.16, "Right_Hip_Roll": 0.16},
}
"""Joint angles, rad, at which two legs overlap."""


def models(name: str) -> tuple[mujoco.MjModel, mujoco.MjModel]:
    spec = get_robot(name)
    assert spec.other_mjcf is not None
    return compile_model(spec.mjcf), compile_model(spec.other_mjcf)


def test_every_walker_has_one() -> None:
    assert {"g1", "g1_12dof", "go1", "go2", "h1", "t1"} == set(ROBOTS)


@pytest.mark.parametrize("name", ROBOTS)
def test_bodies_joints_motors_and_sensors_are_the_same(name: str) -> None:
    model, other = models(name)
    for count, kind in (("nbody", "body"), ("njnt", "joint"), ("nu", "actuator")):
        assert getattr(model, count) == getattr(other, count)
        for i in range(getattr(model, count)):
            assert getattr(model, kind)(i).name == getattr(other, kind)(i).name
    for field in (
        *("body_mass", "body_inertia", "body_ipos", "body_iquat", "body_pos", "body_quat"),
        *("jnt_axis", "jnt_range", "dof_damping", "dof_frictionloss"),
        *("actuator_gainprm", "actuator_biasprm", "actuator_forcerange", "actuator_ctrlrange"),
    ):
        np.testing.assert_allclose(
            getattr(other, field), getattr(model, field), rtol=1e-6, atol=1e-8, err_msg=field
        )
    assert sensor_slices(model) == sensor_slices(other)
    np.testing.assert_array_equal(other.key("home").qpos[7:], model.key("home").qpos[7:])


@pytest.mark.parametrize("name", ROBOTS)
def test_shapes_floor_and_armature_are_others(name: str) -> None:
    model, other = models(name)
    assert model.geom("floor").friction[0] == 0.8
    assert other.geom("floor").friction[0] == 0.6
    assert other.geom("floor").priority[0] == 1

    def colliding(one: mujoco.MjModel) -> set[tuple[float, ...]]:
        shapes = np.flatnonzero(one.geom_type != mujoco.mjtGeom.mjGEOM_PLANE)
        return {(*one.geom_size[i], *one.geom_pos[i]) for i in shapes}

    assert not colliding(other) <= colliding(model)
    assert not np.allclose(other.dof_armature[6:], model.dof_armature[6:])


@pytest.mark.parametrize("name", ROBOTS)
def test_its_home_pose_touches_only_the_floor_and_stands_for_a_second(name: str) -> None:
    _, other = models(name)
    check_home_pose(other, name)
    data = mujoco.MjData(other)
    mujoco.mj_resetDataKeyframe(other, data, other.key("home").id)
    home = data.qpos.copy()
    mujoco.mj_forward(other, data)
    every, floor = (data.sensor(f"{kind}contacts").data[0] for kind in ("", "floor_"))
    assert every == floor
    for _ in range(round(1.0 / other.opt.timestep)):
        mujoco.mj_step(other, data)
    assert np.linalg.norm(data.qpos[:3] - home[:3]) < 0.01  # m
    assert np.abs(data.qpos[7:] - home[7:]).max() < 0.02  # rad
    assert data.sensor("upvector").data[2] > 0.998
    weight = other.body_mass.sum() * 9.81
    forces = [data.sensor(f"{foot}_force").data[0] for foot in get_robot(name).feet]
    assert sum(forces) == pytest.approx(weight, rel=0.05)


@pytest.mark.parametrize("name", ROBOTS)
def test_its_legs_meet_each_other(name: str) -> None:
    _, other = models(name)
    data = mujoco.MjData(other)
    mujoco.mj_resetDataKeyframe(other, data, other.key("home").id)
    data.qpos[2] += 0.5
    for joint, angle in CROSSED[name].items():
        data.joint(joint).qpos[:] = angle
    mujoco.mj_forward(other, data)
    assert data.sensor("contacts").data[0] > 0 == data.sensor("floor_contacts").data[0]
