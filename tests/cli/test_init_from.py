"""--init-from: a warm start from another policy, which the run does not need afterwards."""

from __future__ import annotations

import io
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
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.policies.from_state import params_of, portable
from jaxrl_hw.policies.io import save_policy
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.policies.sources import open_policy
from jaxrl_hw.policies.verification import sample_observations
from jaxrl_hw.train import main
from jaxrl_hw.training.init_from import open_source
from jaxrl_hw.training.run import make_policy
from jaxrl_hw.training.train_step import init_train_state
from jaxrl_hw.training.warm_start import MIN_STD, REMEMBERED_BATCHES

FEW = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "8", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "2", "--ppo.minibatch-size", "16"),
]
SMALL = [*FEW, "--cartpole.episode-s", "1"]

pytestmark = pytest.mark.slow


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


def started(*flags: str):
    """The state of iteration 0 that a command line leads to, its policy, and what is shown."""
    config = replace(parse([*FEW, *flags]), physics="native")
    env, shown = make_env(config), io.StringIO()
    algorithm = make_algorithm(config, env)
    with Console(shown) as console:
        source = open_source(config, env, algorithm, console)
    state = init_train_state(env, algorithm, config.seed, source)
    return state, make_policy(env, algorithm, state), shown.getvalue()


def farthest(some, others) -> float:
    """The largest difference between two trees of weights."""
    return max(jax.tree.leaves(jax.tree.map(lambda a, b: float(abs(a - b).max()), some, others)))


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("kind", ["file", "run"])
def test_before_its_first_update_the_new_policy_is_the_old_one(kind, source, policy, npz, tmp_path):
    name = str({"file": npz, "run": source.folder}[kind])
    state, act, shown = started("--init-from", name, "--run-dir", str(tmp_path / "new"))
    obs = sample_observations(policy)
    np.testing.assert_allclose(act(obs), source.policy(obs), atol=1e-6)
    assert (int(state.iteration), state.env_steps.tolist()) == (0, [0, 0])
    assert name in shown
    assert "iteration 2" in shown


def test_a_policy_of_the_zoo_is_named(tmp_path):
    flags = ("--robot", "g1_12dof", "--init-from", "zoo:g1_12dof", "--run-dir", str(tmp_path))
    state, _, shown = started(*flags)
    assert farthest(state.params.policy, params_of(open_policy("zoo:g1_12dof"))) == 0.0
    assert "zoo:g1_12dof" in shown


def test_from_a_run_the_value_network_and_the_noise_come_too(source, tmp_path):
    state, _, _ = started("--init-from", str(source.folder), "--run-dir", str(tmp_path))
    for mine, other in (
        (state.params.value["params"]["Dense_0"], source.state.params.value["params"]["Dense_0"]),
        (state.params._asdict(), source.state.params._asdict()),
        (state.obs_stats.critic._asdict(), source.state.obs_stats.critic._asdict()),
    ):
        for name in {"kernel", "log_std", "mean", "var"} & set(mine):
            np.testing.assert_array_equal(mine[name], other[name])


def test_another_value_network_is_a_new_one(source, policy, tmp_path):
    flags = ["--init-from", str(source.folder), "--net.value", "16", "--run-dir", str(tmp_path)]
    state, act, _ = started(*flags)
    assert state.params.value["params"]["Dense_0"]["kernel"].shape == (5, 16)
    assert float(state.obs_stats.critic.seen) == 0.0
    obs = sample_observations(policy)
    np.testing.assert_allclose(act(obs), source.policy(obs), atol=1e-6)


def test_a_policy_that_hardly_explores_begins_to_explore_again(policy, tmp_path):
    quiet, wide = tmp_path / "quiet.npz", tmp_path / "wide.npz"
    save_policy(replace(policy, log_std=np.full(1, math.log(0.01), np.float32)), quiet)
    save_policy(replace(policy, log_std=np.full(1, math.log(0.7), np.float32)), wide)
    for path, std in ((quiet, MIN_STD), (wide, 0.7)):
        state, _, shown = started("--init-from", str(path), "--run-dir", str(tmp_path / "new"))
        np.testing.assert_allclose(np.exp(state.params.log_std), std, rtol=1e-6)
        assert f"{std:.2f}" in shown


def test_statistics_of_millions_of_observations_still_adapt(policy, tmp_path):
    path = tmp_path / "old.npz"
    save_policy(replace(policy, seen=4e9), path)
    state, _, _ = started("--init-from", str(path), "--run-dir", str(tmp_path / "new"))
    assert float(state.obs_stats.policy.seen) == REMEMBERED_BATCHES * 8 * 4
    save_policy(replace(policy, seen=50.0), path)
    state, _, _ = started("--init-from", str(path), "--run-dir", str(tmp_path / "new"))
    assert float(state.obs_stats.policy.seen) == 50.0


def test_networks_are_the_policys_own_unless_flags_name_others(npz, source, tmp_path):
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


def test_an_algorithm_starts_from_another_s_policy(tmp_path):
    rest = ["--run-dir", str(tmp_path / "new"), "--init-from", "zoo:go1"]
    config = parse(["--robot", "go1", "--algo", "a2c", *rest])
    assert config.net.policy == parse(["--robot", "go1", *rest]).net.policy
    assert config.a2c.learning_rate == pytest.approx(1e-4)  # a tenth


def test_the_curriculum_continues_where_the_policys_training_was(policy, tmp_path):
    rest = ["--robot", "go1", "--run-dir", str(tmp_path / "new")]

    def begins(*flags: str) -> list[int]:
        return [stage.env_steps for stage in parse([*rest, *flags]).curriculum]

    scratch = begins()
    assert scratch == [800 * 6144, 1600 * 6144]
    assert begins("--init-from", "zoo:go1") == [1, 1], "begun before its first iteration"
    path = tmp_path / "half.npz"
    half = open_policy("zoo:go1")
    done = scratch[0] + 10
    save_policy(replace(half, meta={**half.meta, "env_steps": done}), path)
    flags = ["--init-from", str(path)]
    assert begins(*flags) == [1, scratch[1] - done]
    assert begins(*flags, "--curriculum", "5M: joystick.noise=0.3") == [5_000_000]
    assert begins(*flags, "--curriculum", "none") == []
    save_policy(policy, path)
    assert begins("--robot", "cartpole", "--init-from", str(path)) == []


def test_a_policy_waits_for_a_value_network_that_is_new(policy, npz, tmp_path):
    flags = [*SMALL, "--run-dir", str(tmp_path / "new"), "--init-from", str(npz)]
    config = parse([*flags, "--ppo.critic-warmup-steps", "64"])
    ppo = config.ppo
    waited = fit(replace(config, iterations=2)).state.params
    at_start, _, _ = started(*flags)
    assert farthest(waited.policy, params_of(policy)) == 0.0
    np.testing.assert_array_equal(waited.log_std, at_start.params.log_std)
    assert farthest(waited.value, at_start.params.value) > ppo.lr_max, "at full rate"
    after = fit(replace(config, iterations=3))
    np.testing.assert_allclose(after.metrics["lr"][:2], [ppo.lr_max, ppo.learning_rate])
    moved = farthest(after.state.params.policy, waited.policy)
    usual = ppo.learning_rate * ppo.epochs * (32 // ppo.minibatch_size)
    assert 0.1 * usual < moved < 1.5 * usual


def test_a_trained_policy_is_moved_gently(source, npz, tmp_path):
    rest = ["--robot", "g1_12dof", "--run-dir", str(tmp_path / "new")]
    fresh = parse(rest).ppo
    ppo = parse([*rest, "--init-from", "zoo:g1_12dof"]).ppo
    assert ppo.learning_rate == pytest.approx(0.1 * fresh.learning_rate)
    assert (ppo.anneal_steps, ppo.lr_max) == (1, fresh.lr_max), "the rate fell long ago"
    assert ppo.critic_warmup_steps > 0 == fresh.critic_warmup_steps
    flags = [*SMALL, "--run-dir", str(tmp_path / "new"), "--ppo.anneal-steps", "5k"]
    own = parse([*flags, "--init-from", str(npz)]).ppo
    assert (own.anneal_steps, own.critic_warmup_steps > 0) == (5000, True), "flags win"
    assert parse([*flags, "--init-from", str(source.folder)]).ppo.critic_warmup_steps == 0


def test_a_run_after_a_warm_start_continues_without_its_source(source, npz, tmp_path, capsys):
    folder = tmp_path / "new"
    flags = [*SMALL, "--init-from", str(npz), "--run-dir", str(folder)]
    assert main([*flags, "--iterations", "2"]) == 0
    assert str(npz) in capsys.readouterr().out
    whole = tmp_path / "whole"
    assert main([*flags[:-1], str(whole), "--iterations", "4"]) == 0
    npz.unlink()
    capsys.readouterr()
    assert main([*flags, "--iterations", "3"]) == 0
    assert str(npz) not in capsys.readouterr().out
    # it need not be given again, and another name changes nothing
    rest = ["--run-dir", str(folder), "--iterations", "4"]
    assert main([*SMALL, "--init-from", "zoo:nothing", *rest]) == 0
    assert json.loads((folder / "config.json").read_text())["config"]["init_from"] == str(npz)
    obs = sample_observations(portable(source.config, source.state))
    np.testing.assert_array_equal(load_run(folder).policy(obs), load_run(whole).policy(obs))


def test_a_policy_that_is_not_symmetric_is_no_start_for_a_network_that_is(tmp_path):
    config = replace(parse(["--robot", "h1", "--ppo.symmetry", "loss"]), num_envs=2)
    env = make_env(config)
    fresh = init_train_state(env, make_algorithm(config, env), seed=0)
    path = tmp_path / "lopsided.npz"
    save_policy(portable(config, fresh), path)
    flags = ["--robot", "h1", "--init-from", str(path), "--run-dir", str(tmp_path / "new")]
    with pytest.raises(UserError, match=r"--ppo\.symmetry loss"):
        started(*flags, "--ppo.symmetry", "network")
    started(*flags, "--ppo.symmetry", "loss", "--precision", "bfloat16")  # rounded


def test_as_a_library(source, tmp_path):
    config = replace(
        source.config, init_from=str(source.folder), run_dir=str(tmp_path), iterations=1
    )
    assert fit(config).iteration == 1


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (["--init-from", "{tmp}/nothing"], ["{tmp}/nothing"]),
        (["--init-from", "zoo:nothing"], ["zoo:nothing"]),
        (["--init-from", "{tmp}"], ["{tmp}", "config.json"]),
        (["--init-from", "{started}"], ["{started}", "checkpoint"]),
        (["--init-from", "{run}/config.json"], ["{run}/config.json"]),
        (["--init-from", "{npz}", "--resume", "{run}"], ["--resume {run}", "--init-from {npz}"]),
        (["--init-from", "{run}", "--resume", "never", "--run-dir", "{run}"], ["{run}"]),
        (["--init-from", "{npz}", "--net.policy", "8", "8"], ["24 tanh", "8-8 tanh"]),
        (
            ["--init-from", "{npz}", "--net.activation", "relu"],
            ["24 tanh", "24 relu", "--net.policy", "--net.activation"],
        ),
        (
            ["--init-from", "{npz}", "--robot", "g1_12dof"],
            ["5 observations, 1 actions", "47 observations, 12 actions", "--robot cartpole"],
        ),
    ],
)
def test_a_source_that_cannot_be_used_is_one_line_and_nothing_is_written(
    flags, named, source, npz, tmp_path, capsys
):
    empty = tmp_path / "started"
    empty.mkdir()
    shutil.copy(source.folder / "config.json", empty)
    places = {"tmp": tmp_path, "run": source.folder, "npz": npz, "started": empty}
    argv = [word.format(**places) for word in flags]
    assert main([*FEW, "--run-dir", str(tmp_path / "new"), *argv]) == 2
    line = one_line(capsys)
    assert all(word.format(**places) in line for word in named)
    assert not (tmp_path / "new" / "config.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["history", "gru"])
def test_a_memory_comes_with_its_policy_and_is_refused_without(
    memory: str, train_run, source, tmp_path, capsys
):
    net = replace(source.config.net, memory=memory, history=3, gru=8)
    run = train_run("cartpole", tmp_path / "run", net=net)
    flags = ["--init-from", str(run.folder), "--run-dir", str(tmp_path / "new")]
    state, act, _ = started(*flags)
    own = params_of(portable(run.config, run.state))
    assert farthest(state.params.policy, own) == 0.0
    assert jax.tree.leaves(act.start(2))
    other = ["--init-from", str(source.folder), "--net.memory", memory]
    with pytest.raises(UserError, match="memory"):
        started(*other, "--run-dir", str(tmp_path / "other"))
