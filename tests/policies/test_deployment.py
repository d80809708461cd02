"""What `export` writes to drive a policy without this library: a YAML, an MJCF, a script."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest
import yaml

from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.export import main
from jaxrl_hw.policies import run_policy
from jaxrl_hw.policies.deployment import SCRIPT, deploy_keys, deployment, motor_mjcf
from jaxrl_hw.policies.sources import open_policy

UNITREE = {
    *("policy_path", "xml_path", "simulation_duration", "simulation_dt", "control_decimation"),
    *("kps", "kds", "default_angles", "ang_vel_scale", "dof_pos_scale", "dof_vel_scale"),
    *("action_scale", "cmd_scale", "num_actions", "num_obs", "cmd_init"),
}
"""The keys of unitree_rl_gym's deploy/deploy_mujoco/configs/g1.yaml."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> dict[str, Path]:
    """Exports of the zoo's policies, without torch."""
    root = tmp_path_factory.mktemp("deployments")
    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", None)
        for robot in ("g1_12dof", "go1"):
            found[robot] = root / robot
            assert main(["--policy", f"zoo:{robot}", "--out", str(found[robot])]) == 0
    return found


def drive(config: Path, *flags: str, **environ: str) -> subprocess.CompletedProcess:
    """The script in a process of its own, in which this library cannot be imported."""
    blocked = "import runpy, sys; sys.modules['jaxrl_hw'] = sys.modules['jax'] = None; "
    blocked += f"sys.path.insert(0, {str(config.parent)!r}); sys.argv = sys.argv[1:]; "
    blocked += "runpy.run_path(sys.argv[0], run_name='__main__')"
    words = [sys.executable, "-c", blocked, str(config.parent / SCRIPT), str(config), *flags]
    return subprocess.run(words, capture_output=True, text=True, env=os.environ | environ)


def changed(config: Path, **keys) -> Path:
    """The YAML beside itself with other values; those that are None are left out."""
    values = yaml.safe_load(config.read_text()) | keys
    path = config.with_name("changed.yaml")
    path.write_text(yaml.safe_dump({k: v for k, v in values.items() if v is not None}))
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("robot", "name", "policy", "command"),
    [
        ("g1_12dof", "g1", "policy.npz", [0.5, 0.0, 0.0]),
        ("g1_12dof", "g1", "policy.onnx", [-0.3, 0.0, 0.5]),
        ("go1", "go1", "policy.npz", [0.7, 0.0, 0.0]),
        ("go1", "go1", "policy.onnx", [0.0, 0.3, -0.5]),
    ],
)
def test_the_script_walks_at_the_commanded_velocity(robot, name, policy, command, folders):
    config = changed(folders[robot] / f"{name}.yaml", policy_path=policy, cmd_init=command)
    done = drive(config, "--no-viewer", "--seconds", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    mean = re.search(r"mean velocity \[(.*?)\]", done.stdout)
    np.testing.assert_allclose([float(x) for x in mean[1].split()], command, atol=0.15)


@pytest.mark.slow
def test_a_robot_that_falls_ends_with_code_1(folders):
    limp = changed(folders["go1"] / "go1.yaml", kps=[0.0] * 12)
    assert drive(limp, "--no-viewer", "--seconds", "3").returncode == 1


@pytest.mark.slow
def test_without_a_screen_the_script_says_so_and_drives_without_a_window(folders):
    config, nowhere = folders["go1"] / "go1.yaml", {"DISPLAY": "", "WAYLAND_DISPLAY": ""}
    shown, hidden = (drive(config, "--seconds", "1", *x, **nowhere) for x in ([], ["--no-viewer"]))
    assert (shown.returncode, shown.stderr) == (0, "")
    note, *rest = shown.stdout.splitlines()
    assert rest == hidden.stdout.splitlines(), "but for one line it is the same"
    assert note not in rest


def test_the_script_is_short_and_stands_by_itself(folders):
    text = (folders["go1"] / SCRIPT).read_text()
    assert len(text.splitlines()) < 80
    assert "jaxrl_hw" not in text


def test_the_yaml_has_unitree_s_keys_and_the_contract_s_values(folders):
    keys = yaml.safe_load((folders["g1_12dof"] / "g1.yaml").read_text())
    meta = open_policy("zoo:g1_12dof").meta
    assert set(keys) >= UNITREE
    assert (keys["kps"], keys["kds"]) == (meta["kp"], meta["kd"])
    assert (keys["simulation_dt"], keys["control_decimation"]) == (0.002, 10)
    assert (keys["action_scale"], keys["cmd_scale"]) == (0.25, [2.0, 2.0, 0.25])
    assert (keys["num_obs"], keys["num_actions"]) == (47, 12)
    assert (keys["gait_period"], keys["torque_limits"]) == (0.8, meta["torque_limit"])
    assert (folders["g1_12dof"] / keys["policy_path"]).is_file()
    assert (folders["g1_12dof"] / keys["xml_path"]).is_file()


def test_a_motor_without_a_limit_and_joints_of_several_scales_are_kept():
    policy = open_policy("zoo:t1")
    meta = policy.meta | {"torque_limit": [None, *policy.meta["torque_limit"][1:]]}
    files = deployment(replace(policy, meta=meta), get_robot("t1"), "policy.npz")
    keys = yaml.safe_load(files["t1.yaml"])
    assert keys["torque_limits"][0] == float("inf")
    assert keys["action_scale"] == meta["action_scale"]


def test_stiffer_damping_gets_a_shorter_timestep():
    robot, meta = get_robot("go1"), open_policy("zoo:go1").meta
    stiff = meta | {"kd": [20.0 * kd for kd in meta["kd"]]}
    steps = [deploy_keys(x, robot, "policy.npz") for x in (meta, stiff)]
    assert steps[0]["simulation_dt"] > steps[1]["simulation_dt"]
    for keys in steps:
        assert keys["simulation_dt"] * keys["control_decimation"] == pytest.approx(0.02)


@pytest.mark.parametrize("name", ["g1", "g1_12dof", "go1", "go2", "h1", "t1"])
def test_the_mjcf_in_one_file_is_the_same_robot_with_motors(name):
    robot = get_robot(name)
    text, assets = motor_mjcf(robot)
    ours, theirs = robot.load(), mujoco.MjModel.from_xml_string(text)
    assert not assets
    assert (theirs.nq, theirs.nu, theirs.nsensor, theirs.npair) == (
        ours.nq,
        ours.nu,
        ours.nsensor,
        ours.npair,
    )
    for of in ("body_mass", "body_inertia", "jnt_range", "dof_armature", "actuator_forcerange"):
        np.testing.assert_allclose(getattr(theirs, of), getattr(ours, of), rtol=1e-5, atol=1e-9)
    data = mujoco.MjData(theirs)
    data.ctrl[:] = np.arange(theirs.nu) / theirs.nu
    mujoco.mj_forward(theirs, data)
    np.testing.assert_allclose(data.actuator_force, data.ctrl)


def test_meshes_come_along(tmp_path):
    (tmp_path / "meshes").mkdir()
    corners = [(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0, 0, 0.1)]
    faces = ["f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"]
    obj = [*(f"v {x} {y} {z}" for x, y, z in corners), *faces]
    (tmp_path / "meshes" / "hat.obj").write_text("\n".join(obj) + "\n")
    xml = """<mujoco><compiler meshdir="meshes"/><asset><mesh file="hat.obj"/></asset>
      <worldbody><body><freejoint/><geom type="mesh" mesh="hat"/><body><joint name="j"/>
      <geom size="0.1"/></body></body></worldbody>
      <actuator><position joint="j" kp="2"/></actuator></mujoco>"""
    (tmp_path / "own.xml").write_text(xml)
    text, assets = motor_mjcf(replace(get_robot("go1"), name="own", mjcf=tmp_path / "own.xml"))
    for name, data in assets.items():
        (tmp_path / "new" / name).parent.mkdir(parents=True)
        (tmp_path / "new" / name).write_bytes(data)
    (tmp_path / "new" / "own.xml").write_text(text)
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "new" / "own.xml"))
    assert (model.nmesh, len(assets)) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "flags", "offending"),
    [
        ({"kps": None}, ["--no-viewer"], "kps"),
        ({"kps": [1.0, 2.0]}, ["--no-viewer"], "(2,)"),
        ({"policy_path": "nothing.onnx"}, ["--no-viewer"], "nothing.onnx"),
        ({"xml_path": "policy.npz"}, ["--no-viewer"], "XML"),
        ({}, ["--no-viewer", "--seconds", "-1"], "-1"),
        ({}, ["--no-viewer", "--second", "x"], "x"),
    ],
)
def test_bad_input_of_the_script_is_one_line(keys, flags, offending, folders):
    done = drive(changed(folders["go1"] / "go1.yaml", **keys), *flags)
    assert done.returncode == 2
    assert offending in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("name", ["policy.npz", "policy.onnx"])
def test_open_policy_remembers_as_the_policy_does(name, folders):
    policy, opened = open_policy("zoo:g1_12dof"), run_policy.open_policy(folders["g1_12dof"] / name)
    memory = policy.start(1)
    for obs in np.random.default_rng(0).standard_normal((6, 47)).astype(np.float32):
        expected, memory = policy.step(obs[None], memory)
        np.testing.assert_allclose(opened(obs), expected[0], atol=1e-4)


@pytest.mark.slow
def test_a_policy_of_another_task_has_no_script(cartpole_run, tmp_path, capsys):
    assert main(["--run-dir", str(cartpole_run.folder), "--out", str(tmp_path)]) == 0
    assert not (tmp_path / SCRIPT).exists()
    (line,) = [x for x in capsys.readouterr().out.splitlines() if SCRIPT in x]
    assert "cartpole" in line
