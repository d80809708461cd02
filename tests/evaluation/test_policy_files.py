"""A policy file is filmed and measured like the run it came from."""

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
from jaxrl_hw.policies import zoo
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.policies.io import save_policy


def measured(capsys, *flags):
    assert evaluate.main([*flags, "--seconds", "3", "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_file_is_measured_as_a_policy_of_the_zoo_is(capsys):
    source = zoo.entry("g1_12dof")
    from_file = measured(capsys, "--policy", str(source.policy), "--robot", "g1_12dof")
    from_zoo = measured(capsys, "--policy", "zoo:g1_12dof")
    assert from_file == from_zoo
    assert from_file["robot"] == "g1_12dof"
    assert from_file["iteration"] == source.metrics["iteration"][-1]
    assert len(from_file["rows"]) == 10


def test_a_file_drives_the_robot_as_its_run_does(cartpole_run, tmp_path):
    path = tmp_path / "cart.npz"
    save_policy(portable(cartpole_run.config, cartpole_run.state), path)
    args = Namespace(run_dir=None, policy=str(path), iteration=None, robot="cartpole")
    opened = open_trained(args)
    assert opened.film == Path("cart.mp4")
    commands = np.zeros((16, 3))
    from_file = drive(opened.config, opened.policy, commands, seconds=0.5)
    from_run = drive(cartpole_run.config, cartpole_run.policy, commands, seconds=0.5)
    np.testing.assert_allclose(from_file.qpos, from_run.qpos, atol=1e-4)


@pytest.mark.slow
def test_a_film_of_a_zoo_policy_goes_into_the_current_folder(monkeypatch, tmp_path, capsys):
    try:
        opengl.choose_backend()
    except RunError as error:
        pytest.skip(str(error))
    monkeypatch.chdir(tmp_path)
    flags = ["--policy", "zoo:g1_12dof", "--width", "64", "--height", "64", "--seconds", "0.2"]
    assert play.main(flags) == 0
    assert (tmp_path / "g1_12dof.mp4").stat().st_size > 500
    assert "g1_12dof.mp4" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command",
    [lambda argv: play.main(argv, choose_backend=lambda: "egl"), evaluate.main],
    ids=["play", "evaluate"],
)
@pytest.mark.parametrize(
    ("flags", "offending"),
    [
        ([], "--run-dir"),
        (["--policy", "zoo:g1", "--run-dir", "x"], "--policy"),
        (["--policy", "zoo:wolker"], "zoo:wolker"),
        (["--policy", "nothing.npz"], "nothing.npz"),
        (["--policy", "zoo:g1", "--iteration", "2"], "--iteration"),
        (["--policy", "zoo:g1_12dof", "--robot", "go1"], "47"),
        (["--policy", "zoo:g1_12dof", "--robot", "g1"], "98"),
        (["--policy", "zoo:g1", "--robot", "g11"], "g11"),
        (["--run-dir", "{run}", "--robot", "cartpole"], "cartpole"),
    ],
)
def test_bad_input_is_one_line(command, flags, offending, walking_run, capsys):
    assert command([word.format(run=walking_run.folder) for word in flags]) == 2
    error = capsys.readouterr().err
    assert offending in error
    assert error.count("\n") == 1
