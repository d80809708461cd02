"""A policy file is watched and measured like the run it came from."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from jaxrl_hw import evaluate, play
from jaxrl_hw.cli.trained_policy import open_trained
from jaxrl_hw.errors import RunError
from jaxrl_hw.evaluation import opengl
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.policies.io import save_policy


@pytest.fixture(scope="module")
def walker_npz(walking_run, tmp_path_factory):
    path = tmp_path_factory.mktemp("policies") / "walker.npz"
    save_policy(portable(walking_run.config, walking_run.state), path)
    return path


@pytest.fixture
def own_zoo(walker_npz, tmp_path, monkeypatch):
    folder = tmp_path / "zoo" / "walker"
    folder.mkdir(parents=True)
    (folder / "policy.npz").write_bytes(walker_npz.read_bytes())
    monkeypatch.setattr("jaxrl_hw.policies.zoo.ROOT", folder.parent)


def measured(capsys, *told):
    assert evaluate.main([*told, "--seconds", "3", "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_file_is_measured_as_a_run_is(walker_npz, own_zoo, capsys):
    file = measured(capsys, "--policy", str(walker_npz), "--robot", "g1_12dof")
    zoo = measured(capsys, "--policy", "zoo:walker")
    assert file == zoo
    assert (file["robot"], file["iteration"]) == ("g1_12dof", 2)
    assert len(file["rows"]) == 10


def test_a_file_drives_the_robot_as_its_run_does(cartpole_run, tmp_path):
    path = tmp_path / "cart.npz"
    save_policy(portable(cartpole_run.config, cartpole_run.state), path)
    asked = Namespace(run_dir=None, policy=str(path), iteration=None, robot="cartpole")
    opened = open_trained(asked)
    assert opened.film == Path("cart.mp4")
    commands = np.zeros((16, 3))
    mine = drive(opened.config, opened.policy, commands, seconds=0.5)
    theirs = drive(cartpole_run.config, cartpole_run.policy, commands, seconds=0.5)
    np.testing.assert_allclose(mine.qpos, theirs.qpos, atol=1e-4)


def test_a_film_of_a_zoo_policy_goes_where_the_user_stands(own_zoo, monkeypatch, tmp_path, capsys):
    try:
        opengl.choose_backend()
    except RunError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    told = ["--policy", "zoo:walker", "--width", "64", "--height", "64", "--seconds", "0.2"]
    assert play.main(told) == 0
    assert (tmp_path / "walker.mp4").stat().st_size > 500
    assert "walker.mp4" in capsys.readouterr().out


@pytest.mark.parametrize("command", [play.main, evaluate.main])
@pytest.mark.parametrize(
    ("told", "said"),
    [
        ([], "give one of --run-dir DIR and --policy zoo:NAME|FILE.npz, got neither"),
        (["--policy", "zoo:walker", "--run-dir", "x"], "got both"),
        (["--policy", "zoo:wolker"], 'there are walker; did you mean "walker"?'),
        (["--policy", "nothing.npz"], "no policy in nothing.npz: it does not exist"),
        (["--policy", "zoo:walker", "--iteration", "2"], "leave it out"),
        (
            ["--policy", "zoo:walker", "--robot", "go1"],
            "go1 has 47 observations and 12 actions, g1_12dof has 47 observations and 12 actions",
        ),
        (["--policy", "zoo:walker", "--robot", "g1"], "g1 has 98 observations and 29 actions"),
        (["--policy", "zoo:walker", "--robot", "g11"], 'unknown robot "g11"'),
        (["--run-dir", "{run}", "--robot", "cartpole"], "cartpole has 5 observations"),
    ],
)
def test_bad_input_is_one_line(command, told, said, walking_run, own_zoo, capsys, monkeypatch):
    monkeypatch.setattr("jaxrl_hw.play.choose_backend", lambda: "egl")
    assert command([word.format(run=walking_run.folder) for word in told]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
