"""Each model against measured figures of its robot.

`bodies.csv`: frames in the parent's frame (m, quaternion w x y z), mass (kg), centre of mass and
principal inertia (kg m^2) with its axes, in the body's frame. `joints.csv`: axis, range (rad),
armature (kg m^2), damping (N m s/rad), dry friction (N m), effort limit (N m), gains of the PD
controller (N m/rad, N m s/rad) and the home angle (rad), in the order of the actuators.
"""

import csv
from pathlib import Path

import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.robots import get_robot

LEGGED = ("g1", "g1_12dof", "go1", "go2", "h1", "t1")
UNCLIPPED = ("g1_12dof", "h1")
"""Keep a deployment contract whose targets are not held to the joints' ranges."""
TOTAL_MASS = {  # kg
    "g1": 33.341142,
    "g1_12dof": 32.1069,
    "go1": 12.743448,
    "go2": 15.206408,
    "h1": 51.437,
    "t1": 31.614357,
}
# At home, with the base's origin at the height of the origin, m.
COM_HOME = {
    "g1": (0.00764846835, 8.22609017e-05, 0.68831992 - 0.785),
    "g1_12dof": (0.0202797808, 8.36631199e-05, 0.706493592 - 0.8),
    "go1": (-0.00211294962, 0.000876478028, 0.256854884 - 0.278),
    "go2": (-0.00216912161, 0, 0.248593547 - 0.27),
    "h1": (0.0177229266, 0.000971507533, -0.0343705702),
    "t1": (0.0644671455, -0.000214324572, 0.581595881 - 0.665),
}


def rows(table, robot):
    """Rows of a table for one robot; figures as floats, names as strings."""
    with open(Path(__file__).parent / table, newline="") as file:
        return [row for row in csv.DictReader(file) if row["robot"] == robot]


def figures(row, columns):
    return np.array([float(row[name]) for name in columns.split()])


def check_same(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-12)


def same_rotation(got, want):
    """Unit quaternions are equal up to their sign."""
    np.testing.assert_allclose(got * np.sign(got @ want), want, atol=1e-6)


@pytest.fixture(scope="module", params=LEGGED)
def robot(request):
    return request.param, get_robot(request.param).load()


def test_bodies_hang_and_weigh_as_measured(robot):
    name, model = robot
    table = rows("bodies.csv", name)
    assert [model.body(i).name for i in range(1, model.nbody)] == [r["body"] for r in table]
    for row in table:
        body = model.body(row["body"])
        assert model.body(body.parentid[0]).name == row["parent"], row["body"]
        check_same(body.pos, figures(row, "x y z"))
        same_rotation(body.quat, figures(row, "qw qx qy qz"))
        check_same(body.mass[0], float(row["mass"]))
        check_same(body.ipos, figures(row, "com_x com_y com_z"))
        check_same(body.inertia, figures(row, "i1 i2 i3"))
        same_rotation(body.iquat, figures(row, "iw ix iy iz"))


def test_joints_turn_as_measured(robot):
    name, model = robot
    table = rows("joints.csv", name)
    assert [model.joint(i).name for i in range(1, model.njnt)] == [r["joint"] for r in table]
    for row in table:
        joint = model.joint(row["joint"])
        assert model.body(joint.bodyid[0]).name == row["body"]
        assert joint.type[0] == mujoco.mjtJoint.mjJNT_HINGE
        assert model.jnt_limited[joint.id]
        check_same(joint.axis, figures(row, "ax ay az"))
        check_same(joint.pos, np.zeros(3))
        check_same(joint.range, figures(row, "lower upper"))
        check_same(joint.armature[0], float(row["armature"]))
        check_same(joint.damping[0], float(row["damping"]))
        check_same(joint.frictionloss[0], float(row["frictionloss"]))


def test_base_floats_without_friction(robot):
    _, model = robot
    assert model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE
    for field in (model.dof_armature, model.dof_damping, model.dof_frictionloss):
        assert not field[:6].any()


def test_actuators_are_the_measured_pd_controllers(robot):
    name, model = robot
    table = rows("joints.csv", name)
    assert [model.actuator(i).name for i in range(model.nu)] == [r["joint"] for r in table]
    for row in table:
        actuator = model.actuator(row["joint"])
        kp, kd, effort = float(row["kp"]), float(row["kd"]), float(row["effort"])
        assert model.joint(actuator.trnid[0]).name == row["joint"]
        check_same(actuator.gear, [1, 0, 0, 0, 0, 0])
        check_same(actuator.gainprm[:3], [kp, 0, 0])
        check_same(actuator.biasprm[:3], [0, -kp, -kd])
        check_same(actuator.forcerange, [-effort, effort])
        limited = model.actuator_ctrllimited[actuator.id]
        assert limited == (name not in UNCLIPPED)
        if limited:
            check_same(actuator.ctrlrange, figures(row, "lower upper"))


def test_whole_pd_torque_is_clipped_to_the_effort_limit(robot):
    """A spring far beyond the limit and a fast joint: their sum is clipped, not one of them."""
    _, model = robot
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    effort = model.actuator_forcerange[:, 1]
    data.qvel[6:] = 500.0
    mujoco.mj_forward(model, data)
    check_same(data.actuator_force, -effort)
    check_same(data.qfrc_actuator[6:], -effort)


def test_home_is_the_measured_pose_with_the_measured_balance(robot):
    name, model = robot
    check_same(model.body_subtreemass[0], TOTAL_MASS[name])
    home = model.keyframe("home").qpos
    check_same(home[7:], [float(r["home"]) for r in rows("joints.csv", name)])
    data = mujoco.MjData(model)
    data.qpos[:] = home
    data.qpos[2] = 0.0
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.subtree_com[0], COM_HOME[name], atol=1e-6)
