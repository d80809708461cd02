"""Finding robots by name, adding one's own, and refusing nonsense early."""

import dataclasses
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs import robots
from jaxrl_hw.envs.robots import Mirror, get_robot, register_robot, robot_names
from jaxrl_hw.errors import UserError


@pytest.fixture
def registry(monkeypatch):
    """An empty registry of own robots, put back afterwards."""
    monkeypatch.setattr(robots, "_REGISTERED", {})


def test_every_shipped_robot_has_its_name_and_file():
    assert robot_names() == ("cartpole", "g1", "g1_12dof", "go1")
    for name in robot_names():
        spec = get_robot(name)
        assert spec.name == name
        assert spec.mjcf.is_absolute()
        assert spec.mjcf.is_file()


def test_unknown_robot_is_told_what_there_is():
    with pytest.raises(UserError) as error:
        get_robot("g2")
    assert str(error.value) == (
        'unknown robot "g2": known are cartpole, g1, g1_12dof, go1; did you mean "g1"?'
    )
    with pytest.raises(UserError) as error:
        get_robot("zzz")
    assert str(error.value) == 'unknown robot "zzz": known are cartpole, g1, g1_12dof, go1'


def test_own_robot_is_found_after_registering_it(registry):
    mine = dataclasses.replace(get_robot("go1"), name="go1_heavy")
    register_robot(mine)
    register_robot(mine)
    assert get_robot("go1_heavy") is mine
    assert "go1_heavy" in robot_names()


@pytest.mark.parametrize("name", ["go1", "go1_heavy"])
def test_registering_never_replaces_another_robot(registry, name):
    register_robot(dataclasses.replace(get_robot("go1"), name="go1_heavy"))
    with pytest.raises(ValueError, match=f'robot "{name}" exists already'):
        register_robot(dataclasses.replace(get_robot("go1"), name=name, fall_height=0.1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timestep": 0.003}, "not a whole number of timesteps"),
        ({"gait_offsets": (0.0, 0.5)}, "2 gait_offsets for 4 feet"),
        ({"posture": (-1.0,) * 12}, "must be >= 0"),
        ({"mirror": Mirror((0,), (1.0,), (0,))}, "1 entries for 4 feet"),
    ],
)
def test_spec_that_contradicts_itself_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(get_robot("go1"), **change)


def test_mirror_that_does_not_undo_itself_is_refused():
    with pytest.raises(ValueError, match="joint_perm must swap pairs"):
        Mirror(joint_perm=(1, 2, 0), joint_sign=(1.0,) * 3, foot_perm=())
    with pytest.raises(ValueError, match="2 entries for 1 joints"):
        Mirror(joint_perm=(0,), joint_sign=(1.0, 1.0), foot_perm=())


def test_robots_can_be_listed_without_loading_an_engine():
    code = (
        "import sys; from jaxrl_hw.envs.robots import get_robot, robot_names\n"
        "for name in robot_names(): get_robot(name)\n"
        "assert not {'jax', 'mujoco'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_cartpole_hangs_at_home_and_balances_at_zero():
    model = get_robot("cartpole").load()
    assert (model.nq, model.nu) == (2, 1)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.keyframe("home").id)
    mujoco.mj_forward(model, data)
    rail = data.body("cart").xpos[2]
    assert 0.2 < data.sensor("tip_pos").data[2] < rail - 0.9
    np.testing.assert_allclose(data.qacc, 0.0, atol=1e-9)
    mujoco.mj_resetData(model, data)
    mujoco.mj_forward(model, data)
    assert data.sensor("tip_pos").data[2] > rail + 0.9
    np.testing.assert_allclose(data.qacc, 0.0, atol=1e-9)


def test_cartpole_motor_pushes_with_ten_newton():
    model = get_robot("cartpole").load()
    data = mujoco.MjData(model)
    data.ctrl[:] = 5.0  # beyond ctrlrange
    mujoco.mj_forward(model, data)
    assert data.qfrc_actuator[0] == pytest.approx(10.0)
    assert model.jnt_range[0].tolist() == [-1.8, 1.8]
    assert not model.jnt_limited[1]
