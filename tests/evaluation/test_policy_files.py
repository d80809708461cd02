"""A policy file is filmed and measured like the run it came from."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from jaxrl_hw import evaluate, play
from jaxrl_hw.cli.trained_policy import open_trained
from jaxrl_hw.envs.robots import load_robot
from jaxrl_hw.errors import RunError
from jaxrl_hw.evaluation import opengl
from jaxrl_hw.evaluation.drive import drive
from jaxrl_hw.loggers.jsonl import read_columns
from jaxrl_hw.policies import zoo
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.policies.io import save_policy


def measured(capsys, *flags):
    assert evaluate.main([*flags, "--seconds", "3", "--json", "-"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_file_is_measured_as_a_policy_of_the_zoo_is(capsys):
    source = zoo.folder_of("g1_12dof")
    path = str(source / "policy.npz")
    from_file = measured(capsys, "--policy", path, "--robot", "g1_12dof")
    from_zoo = measured(capsys, "--policy", "zoo:g1_12dof")
    assert from_file == from_zoo
    assert from_file["robot"] == "g1_12dof"
    assert from_file["iteration"] == read_columns(source / "metrics.jsonl")["iteration"][-1]
    assert len(from_file["rows"]) == 10


@pytest.mark.slow
def test_a_file_drives_the_robot_as_its_run_does(cartpole_run, tmp_path):
    path = tmp_path / "cart.npz"
    save_policy(portable(cartpole_run.config, cartpole_run.state), path)
    args = Namespace(run_dir=None, policy=str(path), iteration=None, robot="cartpole", algo=None)
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
        (["--policy", "zoo:g1", "--robot", "cartpole"], "cartpole"),
    ],
)
def test_bad_input_is_one_line(command, flags, offending, capsys):
    assert command(flags) == 2
    error = capsys.readouterr().err
    assert offending in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_a_robot_of_ones_own_is_imported_only_where_the_command_names_it(
    train_run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_cart.py").write_text(
        "from dataclasses import replace\n"
        "from jaxrl_hw import get_robot\n"
        'ROBOT = replace(get_robot("cartpole"), name="cart_of_my_own")\n'
    )
    load_robot("own_cart")
    run = train_run("own_cart", tmp_path / "run")
    command = [sys.executable, "-m", "jaxrl_hw.evaluate", "--run-dir", str(run.folder)]
    command += ["--seconds", "1", "--json"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--robot own_cart" in refused.stderr
    assert refused.stderr.count("\n") == 1
    command += ["-", "--robot", "own_cart"]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert found["robot"] == "cart_of_my_own"
    assert set(found["mean"]) == {"return", "upright_share", "upright_at_end"}
