"""The zoo lists what it holds, every policy in it is complete, and a run can be put into it."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jaxrl_hw.cli import flags
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.jsonl import read_columns
from jaxrl_hw.policies import zoo
from jaxrl_hw.policies.io import load_policy
from jaxrl_hw.policies.sources import config_of, open_policy
from jaxrl_hw.policies.verification import sample_observations

MAKE_ZOO = Path(__file__).resolve().parents[2] / "scripts" / "make_zoo.py"


def content(folder, name):
    return json.loads((folder / f"{name}.json").read_text())


@pytest.fixture(scope="module")
def make_zoo():
    spec = importlib.util.spec_from_file_location("make_zoo", MAKE_ZOO)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_zoo_lists_and_opens_its_policies(own_zoo, walker):
    assert zoo.names(own_zoo) == ("walker",)
    obs = sample_observations(walker)
    np.testing.assert_array_equal(open_policy("zoo:walker", own_zoo)(obs), walker(obs))
    assert zoo.names(own_zoo / "nothing") == ()


def test_the_error_for_an_unknown_name_lists_the_known_ones(own_zoo, tmp_path):
    with pytest.raises(UserError, match=r"zoo:walkre.*walker"):
        open_policy("zoo:walkre", own_zoo)
    with pytest.raises(UserError, match="zoo:g1"):
        zoo.folder_of("g1", tmp_path / "empty")


@pytest.mark.parametrize("name", ["g1", "g1_12dof", "go1", "go2"])
def test_every_shipped_policy_is_complete_small_and_for_its_robot(name):
    assert name in zoo.names()
    folder = zoo.folder_of(name)
    policy = open_policy(f"zoo:{name}")
    assert (folder / "policy.npz").stat().st_size < 1_000_000
    assert policy.meta["robot"] == name
    assert policy.action_size == len(get_robot(name).action_scale)
    assert np.abs(policy(sample_observations(policy))).max() < 100
    config = config_of(policy, name)
    assert config.robot == name
    assert config.run_dir == ""
    assert content(folder, "config")["config"]["robot"] == name
    iterations = read_columns(folder / "metrics.jsonl")["iteration"]
    assert 2 <= len(iterations) <= 200
    assert iterations[-1] == policy.meta["iteration"]
    assert content(folder, "evaluation")["robot"] == name
    origin = content(folder, "origin")
    assert {"commands", "seed", "env_steps", "minutes", "hardware", "versions"} <= set(origin)
    texts = [path.read_text() for path in folder.glob("*.json*")]
    for text in [*texts, json.dumps(policy.meta)]:
        assert not re.search(r"[\" ]/\w", text), "a path of the machine that made it"


@pytest.mark.slow
def test_a_finished_run_becomes_a_folder_of_the_zoo(make_zoo, cartpole_run, tmp_path, capsys):
    words = ["--run-dir", str(cartpole_run.folder), "--name", "cart", "--root", str(tmp_path)]
    (tmp_path / "cart").mkdir()
    (tmp_path / "cart" / "old.txt").write_text("of last week")
    assert make_zoo.main([*words, "--seconds", "1"]) == 0
    assert not (tmp_path / "cart" / "old.txt").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["cart"]
    folder = zoo.folder_of("cart", tmp_path)
    policy = load_policy(folder / "policy.npz")
    obs = sample_observations(policy)
    np.testing.assert_allclose(policy(obs), cartpole_run.policy(obs), atol=1e-5)
    assert read_columns(folder / "metrics.jsonl")["iteration"] == [1, 2]
    assert content(folder, "evaluation")["iteration"] == 2
    origin = content(folder, "origin")
    assert origin["env_steps"] == 2 * 16 * 8
    assert origin["seed"] == 0
    texts = [path.read_text() for path in folder.glob("*.json*")]
    assert not any(str(cartpole_run.folder) in text for text in texts)
    # what is written there as its only command trains it again
    words = origin["commands"][0].split()
    assert words[:3] == ["python", "-m", "jaxrl_hw.train"]
    again = flags.parse([*words[3:], "--run-dir", str(tmp_path / "again")])
    assert (again.net, again.ppo, again.cartpole) == (
        cartpole_run.config.net,
        cartpole_run.config.ppo,
        cartpole_run.config.cartpole,
    )
    assert (again.num_envs, again.iterations) == (16, 2)


def test_a_command_spells_out_what_differs_from_the_preset(make_zoo, tmp_path):
    words = ["--robot", "go1", "--preset", "fast", "--joystick.vx", "0", "0.5"]
    words += ["--ppo.no-motion-prior", "--joystick.reward.slip=-1.5", "--seed", "3"]
    words += ["--curriculum", "4.9M: joystick.noise=0.5 joystick.vx=-2,2", "11M: joystick.noise=1"]
    words += ["--run-dir", str(tmp_path)]
    config = flags.parse(words)
    command = shlex.split(make_zoo.command(config, 77))[3:]
    again = flags.parse([*command, "--run-dir", str(tmp_path)])
    assert again == flags.parse([*words, "--iterations", "77"])
    legs = replace(preset_config("g1_12dof"), curriculum=())
    assert make_zoo.command(legs, legs.iterations).endswith("--robot g1_12dof --curriculum none")


def test_curves_are_thinned_evenly_and_keep_their_end(make_zoo):
    rows = [{"iteration": i, "wall_s": i / 3, "loss/value": 1.0} for i in range(1, 1002)]
    kept = make_zoo.thinned(rows, last=1000)
    assert len(kept) <= 200
    assert kept[-1] == {"iteration": 1000, "wall_s": 333.33}
    assert len(set(np.diff([row["iteration"] for row in kept]))) == 1
    assert make_zoo.thinned(rows[:3], last=3) == make_zoo.thinned(rows, last=3)


def test_the_preset_alone_needs_no_further_flags(make_zoo):
    config = preset_config("g1")
    assert make_zoo.command(config, config.iterations) == "python -m jaxrl_hw.train --robot g1"
    assert Config().robot == "g1"


@pytest.mark.slow
def test_bad_input_is_one_line(make_zoo, cartpole_run, tmp_path, capsys):
    words = ["--run-dir", str(cartpole_run.folder), "--root", str(tmp_path)]
    for more, offending in (
        (["--name", "../up"], "../up"),
        ([], "--name"),
        (["--name", "x", "--iteration", "9"], "iteration 9"),
    ):
        assert make_zoo.main([*words, *more]) == 2
        error = capsys.readouterr().err
        assert offending in error
        assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_the_commands_of_the_zoo_can_be_given(tmp_path):
    """Those of a policy that started from a file of its author's, without it."""
    for name in zoo.names():
        for line in content(zoo.folder_of(name), "origin")["commands"]:
            words = shlex.split(line.replace("--init-from policy.npz ", ""))
            config = flags.parse([*words[3:], "--run-dir", str(tmp_path / "run")])
            assert config.robot == name
