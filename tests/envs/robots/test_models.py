"""What tasks, physics and viewers rely on in every legged model."""

import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot

LEGGED = ("g1", "g1_12dof", "go1", "go2", "h1", "t1")
SOLES = {"h1": 6, "go1": 4, "go2": 4}
"""Spheres that touch the floor, where there are not four a foot of two."""
FOOT_SENSORS = {
    "pos": mujoco.mjtSensor.mjSENS_FRAMEPOS,
    "vel": mujoco.mjtSensor.mjSENS_FRAMELINVEL,
    "up": mujoco.mjtSensor.mjSENS_FRAMEZAXIS,
    "force": mujoco.mjtSensor.mjSENS_TOUCH,
}


@pytest.fixture(scope="module", params=LEGGED)
def robot(request):
    spec = get_robot(request.param)
    return spec, spec.load()


def at_home(model):
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.keyframe("home").id)
    mujoco.mj_forward(model, data)
    return data


def test_spec_describes_the_model(robot):
    spec, model = robot
    assert model.opt.timestep == spec.timestep
    assert spec.load(0.001).opt.timestep == 0.001
    assert model.joint(0).bodyid[0] == model.body(spec.base).id
    assert model.body(spec.torso).mass[0] > 2
    assert len(spec.action_scale) == len(spec.posture) == model.nu == model.njnt - 1
    assert model.keyframe("home").qpos[2] == pytest.approx(spec.base_height, abs=1e-9)
    assert spec.fall_height < spec.base_height
    assert model.camera("track").mode[0] == mujoco.mjtCamLight.mjCAMLIGHT_TRACKCOM


def test_action_scale_of_g1_is_a_quarter_of_the_stall_deflection_and_less_above_the_legs():
    spec = get_robot("g1")
    model = spec.load()
    deflection = model.actuator_forcerange[:, 1] / model.actuator_gainprm[:, 0]
    share = np.array([1.0] * 12 + [0.5] * 3 + [0.3] * 14)
    np.testing.assert_allclose(spec.action_scale, 0.25 * share * deflection, rtol=1e-9)


def test_sensors_are_those_that_tasks_read(robot):
    spec, model = robot
    assert model.sensor("gyro").type[0] == mujoco.mjtSensor.mjSENS_GYRO
    assert model.sensor("linvel").type[0] == mujoco.mjtSensor.mjSENS_VELOCIMETER
    assert model.sensor("upvector").type[0] == mujoco.mjtSensor.mjSENS_FRAMEZAXIS
    for foot in spec.feet:
        for suffix, kind in FOOT_SENSORS.items():
            assert model.sensor(f"{foot}_{suffix}").type[0] == kind
    for name in ("contacts", "floor_contacts"):
        assert model.sensor(name).type[0] == mujoco.mjtSensor.mjSENS_CONTACT
    assert model.nsensor == 5 + 4 * len(spec.feet)


def test_lowest_foot_point_touches_the_floor_at_home(robot):
    spec, model = robot
    data = at_home(model)
    feet = [i for i in range(model.ngeom) if model.geom_conaffinity[i]]
    assert len(feet) == SOLES.get(spec.name, 8)
    assert all(model.geom_type[i] == mujoco.mjtGeom.mjGEOM_SPHERE for i in feet)
    lowest = min(data.geom_xpos[i, 2] - model.geom_size[i, 0] for i in feet)
    assert abs(lowest) < 1e-4
    if len(spec.feet) == 2:  # the sites lie in the sole
        heights = [data.site(foot).xpos[2] for foot in spec.feet]
        np.testing.assert_allclose(heights, 0.0, atol=1e-4)


def test_only_feet_collide_and_only_with_the_floor(robot):
    spec, model = robot
    data = at_home(model)
    data.qpos[2] -= 0.02
    mujoco.mj_forward(model, data)
    floor = model.geom("floor").id
    assert data.ncon == SOLES.get(spec.name, 8)
    for contact in data.contact:
        assert floor in contact.geom
        np.testing.assert_allclose(contact.friction[:2], model.geom_friction[floor, 0])
        assert contact.dim == 3


def test_touch_sensors_share_the_weight(robot):
    spec, model = robot
    data = at_home(model)
    for _ in range(round(0.5 / model.opt.timestep)):
        mujoco.mj_step(model, data)
    forces = [data.sensor(f"{foot}_force").data[0] for foot in spec.feet]
    weight = model.body_subtreemass[0] * 9.81
    assert sum(forces) == pytest.approx(weight, rel=0.02)
    np.testing.assert_allclose(forces, weight / len(forces), rtol=0.05)


@pytest.mark.parametrize("name", ["g1", "g1_12dof"])
def test_legs_cannot_pass_through_each_other_in_the_whole_model(name):
    """Both hips roll inwards in the air: the guards meet and hold. (Pushed on for longer, the legs
    slide off each other and one swings past in front, as real ones would.)
    """
    spec = get_robot(name)
    model = spec.load()
    data = at_home(model)
    assert not [c for c in data.contact if model.geom("floor").id not in c.geom]
    model.opt.gravity[:] = 0
    data.qpos[2] += 1.0
    data.ctrl[model.actuator("left_hip_roll_joint").id] = -0.4
    data.ctrl[model.actuator("right_hip_roll_joint").id] = 0.4
    for _ in range(round(0.3 / model.opt.timestep)):
        mujoco.mj_step(model, data)
    guards = {model.geom(c.geom[i]).name for c in data.contact for i in (0, 1)}
    assert guards & {"left_foot", "left_shin_front", "left_shin_back"}
    left, right = data.site("left_foot").xpos, data.site("right_foot").xpos
    assert left[1] - right[1] > 0.05
    assert data.sensor("left_foot_force").data[0] == 0.0, "a guard's contact is no footfall"


def test_model_without_visuals_moves_the_same(robot):
    spec, model = robot
    bare = compile_model(spec.mjcf, spec.timestep)
    assert bare.ngeom < 0.5 * model.ngeom
    full_data, bare_data = at_home(model), at_home(bare)
    for _ in range(20):
        mujoco.mj_step(model, full_data)
        mujoco.mj_step(bare, bare_data)
    np.testing.assert_array_equal(bare_data.qpos, full_data.qpos)
    np.testing.assert_array_equal(bare_data.sensordata, full_data.sensordata)


def test_mirrored_pose_puts_the_feet_at_mirrored_places(robot):
    spec, model = robot
    mirror = spec.mirror
    data = mujoco.MjData(model)

    def feet(joints):
        data.qpos[:] = 0.0
        data.qpos[3] = 1.0
        data.qpos[7:] = joints
        mujoco.mj_kinematics(model, data)
        return np.array([data.site(foot).xpos for foot in spec.feet])

    def mirrored(joints):
        return np.array(mirror.joint_sign) * joints[list(mirror.joint_perm)]

    rng = np.random.default_rng(0)
    low, high = model.jnt_range[1:].T
    for _ in range(5):
        joints = rng.uniform(low, high)
        np.testing.assert_allclose(mirrored(mirrored(joints)), joints, atol=0)
        reflected = feet(joints)[list(mirror.foot_perm)] * [1, -1, 1]
        np.testing.assert_allclose(feet(mirrored(joints)), reflected, atol=2e-5)


def test_mirrored_home_is_home(robot):
    spec, model = robot
    home = model.keyframe("home").qpos[7:]
    np.testing.assert_allclose(
        np.array(spec.mirror.joint_sign) * home[list(spec.mirror.joint_perm)], home, atol=1e-12
    )
    np.testing.assert_allclose(
        np.array(spec.action_scale)[list(spec.mirror.joint_perm)], spec.action_scale
    )
