"""A policy file gives back the policy it was made from, or one line says why it cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.algos.networks.mlp import ACTIVATIONS
from jaxrl_hw.algos.optimizer import averaged
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks.joystick import observations
from jaxrl_hw.errors import UserError
from jaxrl_hw.policies.bundle import export_policy
from jaxrl_hw.policies.from_state import as_policy, params_of, portable, stats_of
from jaxrl_hw.policies.io import load_policy, save_policy
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import config_of
from jaxrl_hw.policies.verification import sample_observations
from jaxrl_hw.types import PhaseMask, no_phase_mask


def random_policy(activation="elu", sizes=(5, 16, 8, 2)) -> PortablePolicy:
    rng = np.random.default_rng(1)

    def numbers(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    pairs = list(pairwise(sizes))
    motion, clock = np.zeros((sizes[0], 2), np.float32), np.zeros(sizes[0], np.float32)
    motion[1, 0] = 10.0  # the robot stands where entry 1 is within 0.1,
    motion[2:4, 1] = 0.01, -0.01  # and entries 2 and 3 are within 100 of each other
    clock[-2:] = 1.0
    return PortablePolicy(
        PhaseMask(motion, clock),
        numbers(sizes[0]),
        np.exp(numbers(sizes[0])),
        10.0,
        1e6,
        tuple(numbers(m, n) / np.float32(m) ** 0.5 for m, n in pairs),
        tuple(numbers(n) for _, n in pairs),
        numbers(sizes[-1]),
        (),
        {"format": 5, "activation": activation, "versions": {}},
    )


@pytest.mark.slow
def test_numpy_alone_gives_the_actions_of_the_run(walking_run, trained):
    obs = sample_observations(trained)
    assert obs.shape == (1000, 47)
    off = np.abs(trained(obs) - np.asarray(walking_run.policy(obs)))
    assert off.max() < 1e-5
    assert np.ptp(trained(obs), axis=0).min() > 0.05, "constant actions would agree with anything"


@pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
def test_numpy_and_jax_agree_for_every_activation(activation):
    policy = random_policy(activation)
    obs = sample_observations(policy)
    np.testing.assert_allclose(policy(obs), as_policy(policy)(obs), atol=1e-5)


@pytest.mark.parametrize("act", [lambda p: p, as_policy], ids=["numpy", "jax"])
def test_the_phase_counts_only_where_the_robot_does_not_stand(act):
    policy = random_policy()
    obs = np.tile(sample_observations(policy)[:1], (6, 1))
    obs[:, 1] = (0.0, 0.0, -0.2, -0.2, 0.0, 0.0)  # stands twice, then not
    obs[4:, 2:4] += (60.0, -60.0)  # nor here, if by the difference alone
    obs[1::2, -2:] += 1.0  # another phase
    policy = replace(policy, clip=1e3)
    action = np.asarray(act(policy)(obs))
    np.testing.assert_array_equal(action[0], action[1])
    assert np.abs(action[2] - action[3]).max() > 0.01
    assert np.abs(action[4] - action[5]).max() > 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "size"),
    [
        ((0.0, 0.0, 0.0), 0.25),
        ((0.09, -0.09, 0.012), 0.25),  # 0.045 m/s and 0.048 rad/s
        ((0.11, 0.0, 0.0), 1.0),  # 0.055 m/s
        ((0.0, 0.0, -0.013), 1.0),  # 0.052 rad/s
    ],
)
def test_a_walker_sees_a_quarter_of_the_phase_while_it_is_commanded_to_stand(
    command, size, walking_run, trained
):
    obs = np.tile(sample_observations(trained)[3:4], (2, 1))
    obs[0, 6:9], obs[0, -2:] = command, (0.6, -0.8)
    # the same phase at its full size, seen by a policy without a mask
    unmasked = replace(trained, phase_mask=no_phase_mask(47))
    obs[1] = obs[0]
    obs[1, -2:] *= size
    for policy in (trained, walking_run.policy):
        np.testing.assert_allclose(
            np.asarray(policy(obs[:1])), unmasked(obs[1:]), rtol=1e-4, atol=1e-5
        )


def test_a_file_of_format_1_acts_without_a_phase_mask(walker, walker_npz, tmp_path):
    old = changed(
        walker_npz,
        tmp_path / "old.npz",
        meta=meta_with(walker, format=1),
        motion=None,
        clock=None,
    )
    obs = sample_observations(walker)
    moving = np.abs(obs[:, 6:9]).max(axis=1) > 0.2  # the others stand still
    action = load_policy(old)(obs)
    np.testing.assert_array_equal(action[moving], walker(obs)[moving])
    assert np.abs(action - walker(obs))[~moving].max() > 1e-4


def test_a_file_of_format_2_acts_as_it_did(walker, walker_npz, tmp_path):
    """It has the entries that call for motion one by one."""
    calm = np.zeros(47, np.float32)
    calm[6:9] = 10.0, 10.0, 80.0
    meta = meta_with(walker, format=2)
    old = changed(walker_npz, tmp_path / "old.npz", meta=meta, motion=None, calm=calm)
    now = replace(walker, phase_mask=PhaseMask(np.diag(calm), walker.phase_mask.clock))
    obs = sample_observations(now)
    np.testing.assert_array_equal(load_policy(old)(obs), now(obs))
    save_policy(load_policy(old), tmp_path / "again.npz")
    again = load_policy(tmp_path / "again.npz")
    np.testing.assert_array_equal(again(obs), now(obs))
    assert again.meta == walker.meta, "it is a file of this version now"
    unmasked = replace(walker, phase_mask=no_phase_mask(47))
    assert np.abs(now(obs) - unmasked(obs)).max() > 1e-4


def test_samples_lie_around_the_statistics_and_reach_the_clip():
    policy = random_policy()
    seen = sample_observations(policy)
    stand = seen[:, 1] == 0.0
    assert stand.sum() == 100
    unit = (seen - policy.mean) / policy.scale
    assert (np.abs(unit) > policy.clip).any(axis=1).sum() == 100
    unit = unit[~stand]
    np.testing.assert_allclose(np.median(unit, axis=0), 0.0, atol=0.15)
    np.testing.assert_allclose(np.median(np.abs(unit), axis=0), 0.6745, atol=0.1)


def test_what_is_saved_is_what_is_loaded(walker, walker_npz):
    loaded = load_policy(walker_npz)
    assert loaded.meta == walker.meta
    for name, array in walker.arrays().items():
        np.testing.assert_array_equal(loaded.arrays()[name], array)
        assert loaded.arrays()[name].dtype == np.float32
    assert (loaded.obs_size, loaded.action_size) == (47, 12)
    assert loaded.widths == walker.widths


def test_saving_twice_gives_the_same_bytes(walker, walker_npz, tmp_path):
    save_policy(walker, tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == walker_npz.read_bytes()


@pytest.mark.slow
def test_the_way_back_to_the_learner_is_exact(walking_run, trained):
    state = walking_run.state
    for exported, learned in zip(
        params_of(trained)["params"].values(),
        averaged(state.params.policy, state.opt_state)["params"].values(),
        strict=True,
    ):
        for name in ("kernel", "bias"):
            np.testing.assert_array_equal(exported[name], learned[name])
    stats = stats_of(trained)
    np.testing.assert_array_equal(stats.mean, state.obs_stats.policy.mean)
    np.testing.assert_array_equal(jnp.sqrt(stats.var), trained.scale)
    assert float(stats.seen) == float(state.obs_stats.policy.seen) == 16 * 8 * 2


@pytest.mark.slow
def test_the_description_has_all_that_a_robot_needs(walking_run, trained):
    meta = trained.meta
    assert (meta["robot"], meta["task"], meta["algo"]) == ("g1_12dof", "joystick", "ppo")
    assert (meta["iteration"], meta["env_steps"]) == (2, 2 * 16 * 8)
    assert meta["joint_names"][:4] == [
        "left_hip_pitch_joint",
        "left_hip_roll_joint",
        "left_hip_yaw_joint",
        "left_knee_joint",
    ]
    assert meta["default_pose"] == [-0.1, 0.0, 0.0, 0.3, -0.2, 0.0] * 2
    assert meta["kp"] == [100.0, 100.0, 100.0, 150.0, 40.0, 40.0] * 2
    assert meta["kd"] == [2.0, 2.0, 2.0, 4.0, 2.0, 2.0] * 2
    assert meta["torque_limit"] == [88.0, 139.0, 88.0, 139.0, 50.0, 50.0] * 2
    assert meta["action_scale"] == [0.25] * 12
    assert (meta["control_rate"], meta["gait_period"]) == (50.0, 0.8)
    assert set(meta["commands"]) == {"vx", "vy", "yaw_rate"}
    assert meta["commands"]["vx"] == list(walking_run.config.joystick.vx)
    assert {"jaxrl_hw", "jax", "mujoco"} <= set(meta["versions"])
    assert str(walking_run.folder) not in json.dumps(meta), "no path of this machine"


def test_the_described_observation_is_the_one_the_policy_gets(walker):
    rng = np.random.default_rng(0)
    readings = {
        "gyro": rng.standard_normal(3),
        "gravity": rng.standard_normal(3),
        "command": rng.standard_normal(3),
        "joint_position": rng.standard_normal(12),
        "joint_velocity": rng.standard_normal(12),
        "last_action": rng.standard_normal(12),
        "phase": np.array([np.sin(2 * np.pi * 0.3), np.cos(2 * np.pi * 0.3)]),
    }
    parts = walker.meta["observation"]
    assert [part["size"] for part in parts] == [readings[p["name"]].size for p in parts]
    described = np.concatenate([readings[p["name"]] * np.asarray(p["scale"]) for p in parts])
    nothing = jnp.zeros(0)
    expected = observations.policy_entries(
        observations.Readings(
            *(jnp.asarray(readings[p["name"]]) for p in parts[:-1]),
            phase=jnp.float32(0.3),
            velocity=nothing,
            base_height=nothing,
            foot_height=nothing,
            foot_contact=nothing,
            friction=nothing,
            ahead=nothing,
        )
    )
    np.testing.assert_allclose(described, expected, atol=1e-5)


@pytest.mark.slow
def test_every_robot_that_walks_has_a_full_description(walking_run):
    for name in ("g1", "go1"):
        joints = len(get_robot(name).action_scale)
        config = replace(walking_run.config, robot=name)
        meta = portable(config, walking_run.state).meta
        for key in ("joint_names", "default_pose", "kp", "kd", "torque_limit", "action_scale"):
            assert len(meta[key]) == joints
        assert sum(part["size"] for part in meta["observation"]) == 11 + 3 * joints


@pytest.mark.slow
def test_the_description_of_cartpole_leaves_the_gait_out(cartpole_run):
    meta = portable(cartpole_run.config, cartpole_run.state).meta
    assert meta["joint_names"] == ["slider"]
    assert meta["control_rate"] == 50.0
    assert not {"gait_period", "observation", "default_pose", "commands"} & set(meta)


@pytest.mark.slow
def test_the_description_makes_the_config_again(walking_run, trained):
    config = config_of(trained, "the policy")
    assert config == replace(walking_run.config, run_dir="")


@pytest.mark.slow
def test_a_run_in_bfloat16_is_exported_in_float32(half_run):
    policy = portable(half_run.config, half_run.state)
    assert {array.dtype for array in policy.arrays().values()} == {np.dtype(np.float32)}
    obs = sample_observations(policy)
    off = np.abs(policy(obs) - np.asarray(half_run.policy(obs))).max()
    assert 1e-6 < off < 0.05, "the run itself acts in bfloat16"
    np.testing.assert_allclose(policy(obs), as_policy(policy)(obs), atol=1e-5)


def changed(path, out, **changes):
    """A policy file with some of its arrays changed, or with None left out."""
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files} | changes
    np.savez(out, **{name: value for name, value in arrays.items() if value is not None})
    return out


def meta_with(walker, **changes):
    meta = walker.meta | changes
    return np.array(json.dumps({k: v for k, v in meta.items() if v is not None}))


@pytest.mark.parametrize(
    ("changes", "offending"),
    [
        ({"kernel1": None}, "kernel1"),
        ({"meta": None}, "meta"),
        ({"meta": np.array("hello")}, "format"),
        ({"meta": np.array("[1]")}, "format"),
        ({"bias0": np.zeros(3, np.float32)}, r"\(47, 3\)"),
        ({"clip": np.zeros(3, np.float32)}, r"clip.*\(3,\)"),
        ({"motion": np.zeros((), np.float32)}, r"motion.*\(\)"),
        ({"motion": np.zeros(47, np.float32)}, r"motion.*\(47,\)"),
        ({"motion": np.zeros((46, 3), np.float32)}, r"motion.*\(46, 3\)"),
        ({"motion": np.zeros((47, 0), np.float32)}, r"motion.*\(47, 0\)"),
        ({"motion": np.zeros((47, 3, 2), np.float32)}, r"motion.*\(47, 3, 2\)"),
        ({"mean": np.zeros(47, np.int32)}, "bad.npz"),
        ({"mean": np.full(47, np.nan, np.float32)}, "bad.npz"),
        ({"scale": np.zeros(47, np.float32)}, "bad.npz"),
        ({"mean": np.array([None] * 47)}, "bad.npz"),
    ],
)
def test_files_that_make_no_sense_are_refused(changes, offending, walker_npz, tmp_path):
    path = changed(walker_npz, tmp_path / "bad.npz", **changes)
    with pytest.raises(UserError, match=offending) as caught:
        load_policy(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "offending"),
    [
        ({"format": 6}, "format 6"),
        ({"head": "softmax"}, "softmax"),
        ({"format": 0}, "format 0"),
        ({"robot": None}, "meta.robot"),
        ({"versions": [1, 2]}, "meta.versions"),
        ({"activation": "gelu"}, "gelu"),
    ],
)
def test_descriptions_of_another_version_are_refused(
    changes, offending, walker, walker_npz, tmp_path
):
    path = changed(walker_npz, tmp_path / "bad.npz", meta=meta_with(walker, **changes))
    with pytest.raises(UserError, match=offending):
        load_policy(path)


def test_a_missing_file_and_a_damaged_one_are_named(walker_npz, tmp_path):
    with pytest.raises(UserError, match=r"walkre\.npz.*walker\.npz"):
        load_policy(walker_npz.with_name("walkre.npz"))
    with pytest.raises(UserError, match=str(tmp_path)):
        load_policy(tmp_path)
    cut = tmp_path / "cut.npz"
    cut.write_bytes(walker_npz.read_bytes()[:-200])
    with pytest.raises(UserError, match=r"cut\.npz"):
        load_policy(cut)
    flipped = bytearray(walker_npz.read_bytes())
    flipped[len(flipped) // 2] ^= 0xFF
    cut.write_bytes(flipped)
    with pytest.raises(UserError, match=r"cut\.npz"):
        load_policy(cut)


def test_a_policy_of_a_robot_that_is_not_here_is_refused(walker, walker_npz, tmp_path):
    meta = meta_with(walker, config=walker.meta["config"] | {"robot": "r2d2"})
    path = changed(walker_npz, tmp_path / "other.npz", meta=meta)
    with pytest.raises(UserError, match="r2d2"):
        config_of(load_policy(path), str(path))


@pytest.mark.parametrize("kind", ["tanh", "argmax"])
def test_a_head_is_kept_in_the_file_and_every_format_acts_by_it(kind, tmp_path):
    plain = random_policy(sizes=(5, 16, 3))
    table = np.array([[-1.0], [0.25], [1.0]], np.float32)
    array = {"tanh": np.array([1.0, 2.0, 3.0], np.float32), "argmax": table}[kind]
    actions = len(array) if kind == "tanh" else 1
    meta = {**plain.meta, "robot": "cartpole", "task": "cartpole", "algo": "sac", "head": kind}
    meta |= {"iteration": 1, "config": {}}
    policy = replace(plain, head=(array,), meta=meta, log_std=np.zeros(actions, np.float32))
    obs = sample_observations(policy)
    out = replace(plain, meta=plain.meta)(obs)
    expected = array * np.tanh(out) if kind == "tanh" else table[out.argmax(axis=-1)]
    assert policy.action_size == actions
    exported = export_policy(policy, lambda rows: expected, tmp_path)
    assert {"policy.npz", "policy.onnx", "run_policy.py"} <= {f.path.name for f in exported.files}
    again = load_policy(tmp_path / "policy.npz")
    np.testing.assert_allclose(again(obs), policy(obs))
    assert len(np.unique(np.round(again(obs), 4))) > (2 if kind == "argmax" else 100)
