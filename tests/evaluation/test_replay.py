"""A replay's numbers put every primitive where MuJoCo has it."""

from __future__ import annotations

import base64
import json

import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.evaluation.film import Take
from jaxrl_hw.evaluation.replay import replay_of
from jaxrl_hw.evaluation.trajectory import Step, Trajectory


def take_of(qpos, task="joystick", fell=()):
    """A take of poses [T, nq]."""
    steps, flags = len(qpos), np.zeros((len(qpos), 1), bool)
    flags[list(fell)] = True
    none = np.zeros((steps, 1))
    step = Step(qpos[:, None], none, np.zeros((steps, 1, 3)), flags, none, {})
    return Take(Trajectory(task, 0.02, 0.002, step), [f"step {i}" for i in range(steps)])


@pytest.mark.parametrize("robot", ["go1", "cartpole"])
def test_every_primitive_is_where_mujoco_has_it(robot):
    model = get_robot(robot).load()
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    qpos = np.tile(model.key("home").qpos, (6, 1)) + rng.normal(0, 0.2, (6, model.nq))
    for pose in qpos:
        mujoco.mj_normalizeQuat(model, pose)
    found = json.loads(json.dumps(replay_of(model, take_of(qpos))))
    shape = (found["frames"], found["bodies"], 7)
    poses = np.frombuffer(base64.b64decode(found["poses"]), "<i2").reshape(shape)
    assert found["frames"] == 3, "every second control step of 20 ms makes 25 frames/s"
    assert found["frame_s"] == pytest.approx(0.04)
    drawn = [i for i in range(model.ngeom) if model.geom_group[i] < 3 and model.geom_type[i] > 0]
    assert len(found["geoms"]) == len(drawn)
    for frame in range(3):
        data.qpos[:] = qpos[2 * frame + 1]
        mujoco.mj_kinematics(model, data)
        for geom, i in zip(found["geoms"], drawn, strict=True):
            place, quat = np.split(poses[frame, geom["body"]].astype(float), [3])
            quat /= np.linalg.norm(quat)
            offset = np.zeros(3)
            mujoco.mju_rotVecQuat(offset, np.array(geom["place"]), quat)
            np.testing.assert_allclose(place * found["unit"] + offset, data.geom_xpos[i], atol=5e-4)
            assert geom["size"] == pytest.approx(model.geom_size[i], abs=1e-5)


def test_falls_and_commands_are_by_frame():
    model = get_robot("go1").load()
    qpos = np.tile(model.key("home").qpos, (8, 1))
    found = replay_of(model, take_of(qpos, fell=[4]))
    # frames are of the steps 1, 3, 5, 7: the first after the fall is frame 2
    assert found["fell"] == [2]
    assert found["texts"] == ["step 1", "step 3", "step 5", "step 7"]
    assert replay_of(model, take_of(qpos, task="other"))["texts"] == []


def test_what_is_hidden_is_left_out_and_a_mesh_becomes_its_box():
    model = mujoco.MjModel.from_xml_string("""
    <mujoco>
      <asset>
        <mesh name="wedge" vertex="0 0 0  2 0 0  0 1 0  0 0 1"/>
        <material name="red" rgba="1 0 0 1"/>
      </asset>
      <worldbody>
        <body>
          <freejoint/>
          <geom type="mesh" mesh="wedge" material="red"/>
          <geom type="sphere" size="0.1" group="3"/>
          <geom type="sphere" size="0.1" rgba="1 1 1 0"/>
        </body>
      </worldbody>
    </mujoco>""")
    (geom,) = replay_of(model, take_of(np.tile(model.qpos0, (2, 1))))["geoms"]
    assert (geom["shape"], geom["colour"]) == ("box", [1, 0, 0, 1])
    assert sorted(geom["size"]) == pytest.approx(sorted(model.geom_aabb[0, 3:]), abs=1e-5)
