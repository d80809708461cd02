"""python -m jaxrl_hw.export: files that act as the policy does, wherever they run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from jaxrl_hw import CartpoleConfig, register_robot, register_task
from jaxrl_hw.algos.networks.mlp import ACTIVATIONS
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks.cartpole import task
from jaxrl_hw.errors import RunError
from jaxrl_hw.evaluate import evaluate
from jaxrl_hw.export import main
from jaxrl_hw.policies import bundle, verification, zoo
from jaxrl_hw.policies.from_state import as_policy, portable
from jaxrl_hw.policies.io import load_policy, save_policy
from jaxrl_hw.policies.onnx import to_onnx
from jaxrl_hw.policies.torchscript import to_torchscript
from jaxrl_hw.policies.verification import sample_observations

ALONE = """
import sys
sys.modules.update(dict.fromkeys(("jax", "jaxrl_hw", "mujoco", "flax", "onnx", "torch")))
import numpy as np
from run_policy import Policy

policy = Policy()
obs = np.load(sys.argv[1])
print(policy.meta["robot"], policy(obs[0]).shape)
np.save(sys.argv[2], policy(obs))
"""


@pytest.fixture(scope="module")
def exported(walking_run, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("export") / "new" / "policy"
    assert main(["--run-dir", str(walking_run.folder), "--out", str(folder)]) == 0
    return folder


@pytest.mark.slow
def test_the_run_s_own_folder_is_the_default_and_every_file_is_printed_with_its_difference(
    walking_run, capsys
):
    assert main(["--run-dir", str(walking_run.folder)]) == 0
    printed = capsys.readouterr().out
    folder = walking_run.folder / "policy"
    names = {path.name for path in folder.iterdir()}
    assert {"policy.onnx", "policy.npz", "run_policy.py"} <= names
    assert not {name for name in names if name.startswith(".")}, "nothing half-written is left"
    deployed = {"g1.yaml", "g1_12dof.xml", "deploy_mujoco.py"}
    assert deployed <= names
    for name in names - deployed:
        (line,) = [line for line in printed.splitlines() if f" {name} " in line and "│" in line]
        assert 0.0 <= float(line.split("│")[3]) <= 1e-5
    assert str(folder) in printed
    assert f"onnxruntime {onnxruntime.__version__}" in printed


@pytest.mark.slow
def test_onnx_acts_as_the_run_for_any_number_of_robots(walking_run, trained, exported):
    session = onnxruntime.InferenceSession(str(exported / "policy.onnx"))
    (put,), (got,) = session.get_inputs(), session.get_outputs()
    assert (put.name, put.type, put.shape) == ("obs", "tensor(float)", ["batch", 47])
    assert (got.name, got.type, got.shape) == ("action", "tensor(float)", ["batch", 12])
    obs = sample_observations(trained, seed=7)
    expected = np.asarray(walking_run.policy(obs))
    for count in (1, 1000):
        (action,) = session.run(["action"], {"obs": obs[:count]})
        np.testing.assert_allclose(action, expected[:count], atol=1e-5)


@pytest.mark.slow
def test_onnx_carries_the_description(trained, exported):
    model = onnx.load(str(exported / "policy.onnx"))
    meta = {entry.key: entry.value for entry in model.metadata_props}
    assert set(meta) == set(trained.meta)
    assert meta["robot"] == "g1_12dof"
    for key in ("joint_names", "default_pose", "kp", "kd", "torque_limit", "action_scale"):
        assert json.loads(meta[key]) == trained.meta[key]
    assert json.loads(meta["observation"])[0]["scale"] == 0.25
    assert json.loads(meta["control_rate"]) == 50.0
    assert {"jaxrl_hw", "jax", "mujoco"} <= set(json.loads(meta["versions"]))
    # both old enough for the onnxruntime of a robot's computer
    assert model.ir_version == 8
    assert [(o.domain, o.version) for o in model.opset_import] == [("", 17)]


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_every_activation_survives_in_onnx(walker, activation):
    policy = replace(walker, meta=walker.meta | {"activation": activation})
    obs = sample_observations(policy, 200)
    expected = as_policy(policy)(obs)
    data = to_onnx(policy)
    (action,) = onnxruntime.InferenceSession(data).run(None, {"obs": obs})
    np.testing.assert_allclose(action, expected, atol=1e-5)
    (action,) = ReferenceEvaluator(onnx.load_from_string(data)).run(None, {"obs": obs})
    np.testing.assert_allclose(action, expected, atol=1e-5)


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_every_activation_survives_in_torchscript(walker, activation, tmp_path):
    torch = pytest.importorskip("torch")
    policy = replace(walker, meta=walker.meta | {"activation": activation})
    (tmp_path / "policy.pt").write_bytes(to_torchscript(policy))
    net = torch.jit.load(str(tmp_path / "policy.pt"))
    obs = sample_observations(policy, 200)
    expected = np.asarray(as_policy(policy)(obs))
    np.testing.assert_allclose(net(torch.from_numpy(obs)).detach().numpy(), expected, atol=1e-5)
    # as unitree_rl_gym's scripts call it
    one = torch.from_numpy(obs[0]).unsqueeze(0)
    np.testing.assert_allclose(net(one).detach().numpy().squeeze(), expected[0], atol=1e-5)


@pytest.mark.slow
def test_run_policy_needs_numpy_alone(walking_run, trained, exported, tmp_path):
    obs = sample_observations(trained)
    np.save(tmp_path / "obs.npy", obs)
    places = [str(tmp_path / name) for name in ("obs.npy", "action.npy")]
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *places],
        capture_output=True,
        text=True,
        check=True,
        cwd=exported,
    )
    assert done.stdout.split(maxsplit=1) == ["g1_12dof", "(12,)\n"]
    action = np.load(tmp_path / "action.npy")
    np.testing.assert_allclose(action, walking_run.policy(obs), atol=1e-5)
    assert action.dtype == np.float32


@pytest.mark.slow
def test_an_exported_file_can_be_exported_again(exported, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "trained.npz").write_bytes((exported / "policy.npz").read_bytes())
    assert main(["--policy", "trained.npz"]) == 0
    again = tmp_path / "policy-trained"
    for name in ("policy.npz", "policy.onnx", "run_policy.py"):
        assert (again / name).read_bytes() == (exported / name).read_bytes()


@pytest.mark.slow
def test_a_zoo_policy_can_be_exported(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(["--policy", "zoo:g1"]) == 0
    folders = (zoo.folder_of("g1"), Path("policy-g1"))
    policy, again = (load_policy(folder / "policy.npz") for folder in folders)
    obs = sample_observations(policy)
    np.testing.assert_array_equal(again(obs), policy(obs))


@pytest.mark.slow
def test_an_export_tells_where_the_policy_s_legs_passed_through_each_other(tmp_path, capsys):
    policy = load_policy(zoo.folder_of("g1") / "policy.npz")
    file = tmp_path / "old.npz"
    for trained_with, is_told in ((policy.meta["config"], False), (without_contacts(policy), True)):
        save_policy(replace(policy, meta={**policy.meta, "config": trained_with}), file)
        assert main(["--policy", str(file), "--out", str(tmp_path / "out")]) == 0
        assert ("note: " in capsys.readouterr().err) == is_told


def without_contacts(policy):
    config = json.loads(json.dumps(policy.meta["config"]))
    del config["joystick"]["reward"]["self_contact"]
    return config


@pytest.mark.slow
def test_cartpole_is_exported_as_well(cartpole_run, tmp_path):
    assert main(["--run-dir", str(cartpole_run.folder), "--out", str(tmp_path)]) == 0
    policy = load_policy(tmp_path / "policy.npz")
    obs = sample_observations(policy)
    np.testing.assert_allclose(policy(obs), cartpole_run.policy(obs), atol=1e-5)
    assert policy(obs).shape == (1000, 1)


@pytest.mark.slow
def test_a_run_in_bfloat16_is_exported_in_float32_and_a_line_says_so(half_run, capsys):
    assert main(["--run-dir", str(half_run.folder)]) == 0
    assert {"bfloat16", "float32"} <= set(re.findall(r"\w+", capsys.readouterr().out))


@pytest.mark.slow
def test_a_robot_and_a_task_of_ones_own(train_run, walking_run, tmp_path):
    def balance(settings, robot, model):
        return task.make(settings, robot, model)._replace(name="balance")

    register_task("balance", balance, CartpoleConfig)
    register_robot(replace(get_robot("cartpole"), name="my_cart", task="balance"))
    run = train_run("my_cart", tmp_path / "run", task="balance")
    assert main(["--run-dir", str(run.folder)]) == 0
    meta = load_policy(run.folder / "policy" / "policy.npz").meta
    assert (meta["robot"], meta["task"]) == ("my_cart", "balance")
    assert set(evaluate(run, seconds=1.0).mean) == {"return", "falls", "upright_share"}
    register_robot(replace(get_robot("g1_12dof"), name="my_legs"))
    meta = portable(replace(walking_run.config, robot="my_legs"), walking_run.state).meta
    assert (meta["robot"], len(meta["kp"])) == ("my_legs", 12)


@pytest.mark.slow
@pytest.mark.parametrize(("package", "name"), [("torch", "policy.pt"), ("onnx", "policy.onnx")])
def test_a_missing_package_costs_its_file_and_one_line(
    package, name, walker_npz, tmp_path, monkeypatch, capsys
):
    monkeypatch.setitem(sys.modules, package, None)
    flags = ["--policy", str(walker_npz), "--out", str(tmp_path)]
    assert main(flags) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(f"pip install {package}" in line and name in line for line in lines) == 1
    assert not (tmp_path / name).exists()
    assert (tmp_path / "policy.npz").exists()
    (tmp_path / name).write_text("of last week")
    assert main(flags) == 0
    (line,) = [x for x in capsys.readouterr().out.splitlines() if f"pip install {package}" in x]
    assert str(tmp_path) in line, "the file that is there is of an earlier export"
    assert (tmp_path / name).read_text() == "of last week"


def test_without_onnxruntime_onnx_s_own_evaluator_verifies(walker, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    exported = bundle.export_policy(walker, as_policy(walker), tmp_path / "out")
    (file,) = [file for file in exported.files if file.path.name == "policy.onnx"]
    assert "onnxruntime" not in file.by
    assert file.difference <= 1e-5


def test_a_file_that_differs_is_not_written(walker, tmp_path):
    def other(obs):
        return walker(obs) + 1e-3

    with pytest.raises(RunError, match=r"policy\.npz by 1\.0e-03"):
        bundle.export_policy(walker, other, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "policy.npz").write_text("of last week")
    with pytest.raises(RunError, match=str(tmp_path)):
        bundle.export_policy(walker, other, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["policy.npz"]
    assert (tmp_path / "policy.npz").read_text() == "of last week"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda obs: np.full((len(obs), 12), np.nan),
        lambda obs: np.zeros((len(obs), 11)),
        lambda obs: np.zeros(12),
    ],
)
def test_no_number_and_another_shape_are_differences(wrong, walker):
    obs = sample_observations(walker)
    episodes = verification.episodes_of(walker, obs)
    runner = verification.Runner(lambda seen: verification.drive(wrong, seen), "test")
    off, within = verification.compare(runner, episodes, verification.drive(walker, episodes))
    assert off == float("inf")
    assert not within


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "offending"),
    [
        ([], "--run-dir"),
        (["--run-dir", "{run}", "--policy", "zoo:g1"], "--policy"),
        (["--run-dir", "{tmp}"], "{tmp}"),
        (["--run-dir", "{tmp}/nothing"], "{tmp}/nothing"),
        (["--run-dir", "{started}"], "{started}"),
        (["--run-dir", "{run}", "--iteration", "9"], "iteration 9"),
        (["--policy", "{npz}", "--iteration", "2"], "--iteration"),
        (["--policy", "{tmp}/nothing.npz"], "{tmp}/nothing.npz"),
        (["--policy", "{run}/config.json"], "{run}/config.json"),
        (["--policy", "{npz}", "--out", "{npz}"], "{npz}"),
        (["--policy", "{npz}", "--out", "{npz}/below"], "{npz}/below"),
        (["--policy", "zoo:g3"], "zoo:g3"),
        (["--run_dir", "{run}", "--output", "x"], "--output"),
    ],
)
def test_bad_input_is_one_line(flags, offending, walking_run, walker_npz, tmp_path, capsys):
    started = tmp_path / "started"
    started.mkdir()
    (started / "config.json").write_text((walking_run.folder / "config.json").read_text())
    places = {"tmp": tmp_path, "run": walking_run.folder, "npz": walker_npz, "started": started}
    assert main([word.format(**places) for word in flags]) == 2
    error = capsys.readouterr().err
    assert offending.format(**places) in error
    assert error.count("\n") == 1
