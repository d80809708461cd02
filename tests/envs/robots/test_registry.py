"""Finding robots by name, adding one's own, and refusing nonsense early."""

import dataclasses
import importlib
import subprocess
import sys

import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.robots import Mirror, get_robot, load_robot, register_robot, robot_names
from jaxrl_hw.errors import UserError

SHIPPED = ("cartpole", "g1", "g1_12dof", "go1", "go2", "h1", "t1")


def test_every_shipped_robot_has_its_name_and_file():
    assert set(SHIPPED) <= set(robot_names())
    for name in SHIPPED:
        spec = get_robot(name)
        assert spec.name == name
        assert spec.mjcf.is_absolute()
        assert spec.mjcf.is_file()


def test_unknown_robot_is_told_what_there_is():
    for find in (get_robot, load_robot):
        with pytest.raises(UserError) as error:
            find("g11")
        assert [name for name in SHIPPED if name not in str(error.value)] == []
        assert 'did you mean "g1"?' in str(error.value)


def test_own_robot_is_found_after_registering_it():
    mine = dataclasses.replace(get_robot("go1"), name="go1_light")
    register_robot(mine)
    register_robot(mine)
    assert get_robot("go1_light") is mine
    assert "go1_light" in robot_names()


@pytest.mark.parametrize("name", ["go1", "go1_heavy"])
def test_registering_never_replaces_another_robot(name):
    register_robot(dataclasses.replace(get_robot("go1"), name="go1_heavy"))
    with pytest.raises(ValueError, match=f'"{name}"'):
        register_robot(dataclasses.replace(get_robot("go1"), name=name, fall_height=0.1))


def module(folder, name, text):
    """A module of that name, importable from the folder."""
    path = folder / f"{name.replace('.', '/')}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "import dataclasses\nfrom jaxrl_hw.envs.robots import get_robot, register_robot\n"
        f'spec = dataclasses.replace(get_robot("cartpole"), name="{path.stem}")\n{text}\n'
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("own_defines", "ROBOT = spec"),
        ("own_registers", "register_robot(spec)"),
        ("own_package.own_both", "ROBOT = spec; register_robot(spec)"),
    ],
)
def test_a_module_is_imported_only_where_it_is_named(name, text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    module(tmp_path, name, text)
    with pytest.raises(UserError, match=f"--robot {name}"):
        get_robot(name)
    assert name not in sys.modules
    assert load_robot(name).name == name.rpartition(".")[2]
    assert get_robot(name) is load_robot(name)


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("own_empty", "", "ROBOT"),
        ("own_faulty", "1 / 0", "ZeroDivisionError"),
        ("own_taken", 'ROBOT = dataclasses.replace(spec, name="go1")', '"go1"'),
        ("no.such_module", None, "no"),
    ],
)
def test_a_module_without_a_robot_is_refused_in_one_line(name, text, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    if text is not None:
        module(tmp_path, name, text)
    with pytest.raises(UserError) as error:
        load_robot(name)
    assert named in str(error.value)


def test_a_module_that_is_imported_already_is_known(tmp_path, monkeypatch):
    module(tmp_path, "own_imported", "ROBOT = spec")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("own_imported")
    assert get_robot("own_imported").name == "own_imported"


def test_an_entry_point_is_loaded_where_it_is_named(tmp_path, monkeypatch):
    module(tmp_path, "own_plugin", "ROBOT = spec")
    info = tmp_path / "own_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own_plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jaxrl_hw.robots]\nplugged = own_plugin:ROBOT\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match="--robot plugged"):
        get_robot("plugged")
    assert load_robot("plugged").name == "own_plugin"
    assert get_robot("plugged").name == "own_plugin"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"timestep": 0.003}, "0.003"),
        ({"gait_offsets": (0.0, 0.5)}, "gait_offsets"),
        ({"posture": (-1.0,) * 12}, "posture"),
        ({"mirror": Mirror((0,), (1.0,), (0,))}, "foot_perm"),
    ],
)
def test_spec_that_contradicts_itself_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(get_robot("go1"), **change)


def test_mirror_that_does_not_undo_itself_is_refused():
    with pytest.raises(ValueError, match="joint_perm"):
        Mirror(joint_perm=(1, 2, 0), joint_sign=(1.0,) * 3, foot_perm=())
    with pytest.raises(ValueError, match="joint_sign"):
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
