"""--init-from: a new run whose policy is another's, which then needs the other no more."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl_hw import Run, fit, load_run, make_algorithm, make_env
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.policies.from_state import params_of, portable
from jaxrl_hw.policies.io import save_policy
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import open_policy
from jaxrl_hw.policies.verification import sample_observations
from jaxrl_hw.train import main
from jaxrl_hw.training.run import make_policy
from jaxrl_hw.training.warm_start import MIN_STD, REMEMBERED_BATCHES, first_state

SMALL = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "8", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "2", "--ppo.minibatches", "2"),
    *("--cartpole.episode-s", "1"),
]

pytestmark = pytest.mark.usefixtures("quick_compile")


@pytest.fixture(scope="module")
def source(train_run, tmp_path_factory) -> Run:
    """A run with networks of its own, tanh 24 and 12."""
    folder = tmp_path_factory.mktemp("source") / "run"
    base = parse([*SMALL, "--net.policy", "24", "--net.value", "12", "--net.activation", "tanh"])
    return train_run("cartpole", folder, net=base.net, ppo=base.ppo, num_envs=8)


@pytest.fixture(scope="module")
def policy(source: Run) -> PortablePolicy:
    return portable(source.config, source.state)


@pytest.fixture
def npz(policy: PortablePolicy, tmp_path: Path) -> Path:
    path = tmp_path / "cart.npz"
    save_policy(policy, path)
    return path


def begun(*told: str):
    """The state of iteration 0 that a command line leads to, its policy, and what is said."""
    from io import StringIO

    config = replace(parse([*SMALL, *told]), physics="native")
    env, said = make_env(config), StringIO()
    algorithm = make_algorithm(config, env)
    with Console(said) as console:
        state = first_state(env, algorithm, config, console)
    return state, make_policy(env, algorithm, state), said.getvalue()


def farthest(some, others) -> float:
    """The largest difference between two trees of weights."""
    return max(jax.tree.leaves(jax.tree.map(lambda a, b: float(abs(a - b).max()), some, others)))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("kind", ["file", "run", "zoo"])
def test_before_its_first_update_the_new_policy_is_the_old_one(
    kind, source, policy, npz, tmp_path, monkeypatch
):
    names = {"file": str(npz), "run": str(source.folder), "zoo": "zoo:cart"}
    (tmp_path / "zoo" / "cart").mkdir(parents=True)
    shutil.copy(npz, tmp_path / "zoo" / "cart" / "policy.npz")
    monkeypatch.setattr("jaxrl_hw.policies.zoo.ROOT", tmp_path / "zoo")
    state, act, said = begun("--init-from", names[kind], "--run-dir", str(tmp_path / "new"))
    obs = sample_observations(policy)
    np.testing.assert_allclose(act(obs), source.policy(obs), atol=1e-6)
    assert (int(state.iteration), state.env_steps.tolist()) == (0, [0, 0])
    assert f"starts from {names[kind]} (iteration 2)" in said


def test_from_a_run_the_value_network_and_the_noise_come_too(source, tmp_path):
    state, _, said = begun("--init-from", str(source.folder), "--run-dir", str(tmp_path))
    for mine, theirs in (
        (state.params.value["params"]["Dense_0"], source.state.params.value["params"]["Dense_0"]),
        (state.params._asdict(), source.state.params._asdict()),
        (state.obs_stats.critic._asdict(), source.state.obs_stats.critic._asdict()),
    ):
        for name in {"kernel", "log_std", "mean", "var"} & set(mine):
            np.testing.assert_array_equal(mine[name], theirs[name])
    assert "policy, value network, their statistics and the action noise" in said


def test_another_value_network_is_a_new_one(source, policy, tmp_path):
    told = ["--init-from", str(source.folder), "--net.value", "16", "--run-dir", str(tmp_path)]
    state, act, said = begun(*told)
    assert state.params.value["params"]["Dense_0"]["kernel"].shape == (5, 16)
    assert float(state.obs_stats.critic.seen) == 0.0
    assert "the value network is new" in said
    obs = sample_observations(policy)
    np.testing.assert_allclose(act(obs), source.policy(obs), atol=1e-6)


def test_a_policy_that_hardly_explores_begins_to_explore_again(policy, tmp_path):
    quiet, wide = tmp_path / "quiet.npz", tmp_path / "wide.npz"
    save_policy(replace(policy, log_std=np.full(1, math.log(0.01), np.float32)), quiet)
    save_policy(replace(policy, log_std=np.full(1, math.log(0.7), np.float32)), wide)
    for path, std in ((quiet, MIN_STD), (wide, 0.7)):
        state, _, said = begun("--init-from", str(path), "--run-dir", str(tmp_path / "new"))
        np.testing.assert_allclose(np.exp(state.params.log_std), std, rtol=1e-6)
        assert f"action noise ({std:.2f})" in said


def test_statistics_of_millions_of_observations_still_adapt(policy, tmp_path):
    path = tmp_path / "old.npz"
    save_policy(replace(policy, seen=4e9), path)
    state, _, _ = begun("--init-from", str(path), "--run-dir", str(tmp_path / "new"))
    assert float(state.obs_stats.policy.seen) == REMEMBERED_BATCHES * 8 * 4
    save_policy(replace(policy, seen=50.0), path)
    state, _, _ = begun("--init-from", str(path), "--run-dir", str(tmp_path / "new"))
    assert float(state.obs_stats.policy.seen) == 50.0


def test_networks_are_the_policys_own_unless_told_otherwise(npz, source, tmp_path):
    rest = ["--run-dir", str(tmp_path / "new")]
    for name in (str(npz), str(source.folder)):
        net = parse([*SMALL, *rest, "--init-from", name]).net
        assert (net.policy, net.value, net.activation) == ((24,), (12,), "tanh")
    net = parse([*SMALL, *rest, "--init-from", str(npz), "--net.value", "40", "8"]).net
    assert (net.policy, net.value) == ((24,), (40, 8))
    net = parse([*SMALL, *rest]).net
    assert (net.policy, net.activation) == ((64, 64), "elu")
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"init_from": str(npz)}))
    assert parse([*SMALL, *rest, "--config", str(file)]).net.policy == (24,)


def test_the_curriculum_goes_on_where_the_policys_training_was(policy, tmp_path):
    rest = ["--robot", "g1_12dof", "--run-dir", str(tmp_path / "new")]

    def begins(*told: str) -> list[int]:
        return [stage.env_steps for stage in parse([*rest, *told]).curriculum]

    scratch = begins()
    assert scratch == [800 * 6144, 1800 * 6144, 3000 * 6144]
    assert begins("--init-from", "zoo:g1_12dof") == [1, 1, 1], "begun before its first iteration"
    path = tmp_path / "half.npz"
    half = open_policy("zoo:g1_12dof")
    done = scratch[0] + 10
    save_policy(replace(half, meta={**half.meta, "env_steps": done}), path)
    told = ["--init-from", str(path)]
    assert begins(*told) == [1, scratch[1] - done, scratch[2] - done]
    assert begins(*told, "--curriculum", "5M: joystick.noise=0.3") == [5_000_000]
    assert begins(*told, "--curriculum", "none") == []
    save_policy(policy, path)
    assert begins("--robot", "cartpole", "--init-from", str(path)) == []


def test_a_policy_waits_for_a_value_network_that_is_new(policy, npz, tmp_path):
    told = [*SMALL, "--run-dir", str(tmp_path / "new"), "--init-from", str(npz)]
    config = parse([*told, "--ppo.critic-warmup", "2"])
    ppo = config.ppo
    waited = fit(replace(config, iterations=2)).state.params
    begun_with, _, _ = begun(*told)
    assert farthest(waited.policy, params_of(policy)) == 0.0
    np.testing.assert_array_equal(waited.log_std, begun_with.params.log_std)
    assert farthest(waited.value, begun_with.params.value) > ppo.lr_max, "at full rate"
    after = fit(replace(config, iterations=3))
    np.testing.assert_allclose(after.metrics["lr"][:2], [ppo.lr_max, ppo.learning_rate])
    moved = farthest(after.state.params.policy, waited.policy)
    usual = ppo.learning_rate * ppo.epochs * ppo.minibatches
    assert 0.1 * usual < moved < 1.5 * usual


def test_a_trained_policy_is_moved_gently(source, npz, tmp_path):
    rest = ["--robot", "g1_12dof", "--run-dir", str(tmp_path / "new")]
    fresh = parse(rest).ppo
    ppo = parse([*rest, "--init-from", "zoo:g1_12dof"]).ppo
    assert ppo.learning_rate == pytest.approx(0.1 * fresh.learning_rate)
    assert (ppo.anneal, ppo.lr_max) == (1, fresh.lr_max), "the rate fell long ago"
    assert ppo.critic_warmup > 0 == fresh.critic_warmup
    told = [*SMALL, "--run-dir", str(tmp_path / "new"), "--ppo.anneal", "50"]
    own = parse([*told, "--init-from", str(npz)]).ppo
    assert (own.anneal, own.critic_warmup > 0) == (50, True), "flags win"
    assert parse([*told, "--init-from", str(source.folder)]).ppo.critic_warmup == 0


def test_a_run_that_started_so_goes_on_without_its_source(source, npz, tmp_path, capsys):
    folder = tmp_path / "new"
    told = [*SMALL, "--init-from", str(npz), "--run-dir", str(folder)]
    assert main([*told, "--iterations", "2"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "start new run, its policy from" in said
    assert f"starts from {npz} (iteration 2): policy, its statistics" in said
    whole = tmp_path / "whole"
    assert main([*told[:-1], str(whole), "--iterations", "4"]) == 0
    npz.unlink()
    capsys.readouterr()
    assert main([*told, "--iterations", "3"]) == 0
    assert "starts from" not in capsys.readouterr().out
    # nor need it be named again, and another name changes nothing
    rest = ["--run-dir", str(folder), "--iterations", "4"]
    assert main([*SMALL, "--init-from", "zoo:nothing", *rest]) == 0
    assert json.loads((folder / "config.json").read_text())["config"]["init_from"] == str(npz)
    obs = sample_observations(portable(source.config, source.state))
    np.testing.assert_array_equal(load_run(folder).policy(obs), load_run(whole).policy(obs))


def test_as_a_library(source, tmp_path):
    config = replace(
        source.config, init_from=str(source.folder), run_dir=str(tmp_path), iterations=1
    )
    assert fit(config).iteration == 1


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (["--init-from", "{tmp}/nothing"], "/nothing does not exist"),
        (["--init-from", "zoo:nothing"], 'no policy "zoo:nothing"'),
        (["--init-from", "{tmp}"], "is no run to start from: it has no config.json"),
        (["--init-from", "{started}"], "is no run to start from: it has no checkpoint yet"),
        (["--init-from", "{run}/config.json"], "damaged or no policy file"),
        (["--init-from", "{npz}", "--resume", "{run}"], "are two starts: give one of them"),
        (
            ["--init-from", "{run}", "--resume", "never", "--run-dir", "{run}"],
            "is the run's own folder",
        ),
        (
            ["--init-from", "{npz}", "--net.policy", "8", "8"],
            "has 5 observations, 1 actions (robot cartpole) and a 24 tanh policy network; "
            "this run has 5 observations, 1 actions (robot cartpole) and a 8-8 tanh policy network",
        ),
        (
            ["--init-from", "{npz}", "--net.activation", "relu"],
            "a 24 tanh policy network; this run has 5 observations, 1 actions (robot cartpole) "
            "and a 24 relu policy network; leave out --net.policy and --net.activation",
        ),
        (
            ["--init-from", "{npz}", "--robot", "g1_12dof"],
            "5 observations, 1 actions (robot cartpole) and a 24 tanh policy network; this run "
            "has 47 observations, 12 actions (robot g1_12dof)",
        ),
    ],
)
def test_what_cannot_be_started_from_is_one_line(told, said, source, npz, tmp_path, capsys):
    started = tmp_path / "started"
    started.mkdir()
    shutil.copy(source.folder / "config.json", started)
    places = {"tmp": tmp_path, "run": source.folder, "npz": npz, "started": started}
    words = [word.format(**places) for word in told]
    assert main([*SMALL, "--run-dir", str(tmp_path / "new"), *words]) == 2
    assert said in one_line(capsys)
    assert not (tmp_path / "new" / "config.json").exists()
