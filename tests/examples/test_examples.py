"""The examples run from end to end as their users start them, only shorter."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from jaxrl_hw import evaluate, export, plan, play, runs, train
from jaxrl_hw.errors import RunError
from jaxrl_hw.evaluation import opengl
from jaxrl_hw.policies.io import load_policy

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ROBOT = ["--robot", "examples.own_robot"]
SMALL = ["--num-envs", "16", "--physics", "native", "--no-tensorboard", "--save-every", "2"]


def test_cartpole_trains_by_the_library_alone(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ppo_cartpole.py", "--iterations", "2", "--num-envs", "16"])
    runpy.run_path(str(ROOT / "examples/ppo_cartpole.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["iteration 1", "iteration 2"]


@pytest.fixture(scope="module")
def hopper(tmp_path_factory):
    """Two iterations of the hopper, with a task and a robot that are not as they come."""
    folder = tmp_path_factory.mktemp("hopper") / "run"
    words = ["--hop.speed", "1.5", "--hopper.strength", "0.4", "--iterations", "2"]
    words += ["--curriculum", "500: hop.effort=-0.5"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        assert train.main([*ROBOT, *SMALL, *words, "--run-dir", str(folder)]) == 0
    return folder


@pytest.fixture
def root(monkeypatch):
    monkeypatch.chdir(ROOT)


def test_its_settings_are_the_runs(hopper):
    config = json.loads((hopper / "config.json").read_text())["config"]
    assert (config["robot"], config["hop"]["speed"]) == ("examples.own_robot", 1.5)
    assert config["hopper"] == {"strength": 0.4}
    rows = [json.loads(line) for line in (hopper / "metrics.jsonl").read_text().splitlines()]
    efforts = [row["reward/effort"] for row in rows]
    assert efforts[1] < 10.0 * efforts[0] < 0.0, "25 times the weight in the second stage"


def test_it_is_continued_to_the_bit(hopper, root, tmp_path):
    part, whole = tmp_path / "part", tmp_path / "whole"
    shutil.copytree(hopper, part)
    assert train.main([*ROBOT, "--run-dir", str(part), "--iterations", "4"]) == 0
    words = ["--hop.speed", "1.5", "--hopper.strength", "0.4", "--iterations", "4"]
    words += ["--curriculum", "500: hop.effort=-0.5"]
    assert train.main([*ROBOT, *SMALL, *words, "--run-dir", str(whole)]) == 0
    returns = [
        [json.loads(line)["loss/value"] for line in (folder / "metrics.jsonl").open()]
        for folder in (part, whole)
    ]
    assert returns[0] == returns[1]


def test_it_is_evaluated_and_exported(hopper, root, tmp_path, capsys):
    assert export.main([*ROBOT, "--run-dir", str(hopper), "--out", str(tmp_path)]) == 0
    policy = load_policy(tmp_path / "policy.npz")
    assert policy.meta["action_scale"] == [0.4] * 3
    assert np.isfinite(policy(np.zeros((2, 15), np.float32))).all()
    capsys.readouterr()
    common = ["--seconds", "1", "--json"]
    assert evaluate.main([*ROBOT, "--run-dir", str(hopper), *common]) == 0
    of_run = json.loads(capsys.readouterr().out)
    assert evaluate.main([*ROBOT, "--policy", str(tmp_path / "policy.npz"), *common]) == 0
    of_file = json.loads(capsys.readouterr().out)
    assert (of_run["robot"], of_run["task"], len(of_run["rows"])) == ("hopper", "hop", 16)
    assert {"speed", "in_the_air", "return"} <= set(of_run["mean"])
    assert of_file["mean"] == pytest.approx(of_run["mean"], abs=5e-3), "a few of 992 steps"


def test_it_is_filmed(hopper, root, tmp_path):
    try:
        opengl.choose_backend()
    except RunError as error:
        pytest.skip(str(error))
    film = tmp_path / "hop.gif"
    small = ["--width", "160", "--height", "90", "--seconds", "0.2", "--out", str(film)]
    assert play.main([*ROBOT, "--run-dir", str(hopper), *small]) == 0
    assert film.stat().st_size > 0


FROM_FILES = """
import sys
from jaxrl_hw import evaluate, export, plan, play, runs, train
folder, policy = sys.argv[1:]
run, file = ["--run-dir", folder], ["--policy", policy]
codes = [train.main(run), plan.main(run), evaluate.main(run), play.main(run), export.main(run)]
codes += [evaluate.main(file), train.main(["--config", f"{folder}/config.json"])]
assert codes == [2] * 7, codes
assert runs.main(["list", f"{folder}/.."]) == runs.main(["show", folder]) == 0
assert not [name for name in sys.modules if "own_robot" in name]
"""


def test_no_command_runs_code_that_only_files_name(hopper, root, tmp_path):
    """Each says which flag to give; runs are listed all the same."""
    assert export.main([*ROBOT, "--run-dir", str(hopper), "--out", str(tmp_path)]) == 0
    words = [sys.executable, "-c", FROM_FILES, str(hopper), str(tmp_path / "policy.npz")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 7
    assert all("--robot examples.own_robot" in line for line in errors)
    assert "--robot examples.own_robot" in done.stdout


def test_it_is_unpacked_and_goes_on(hopper, root, tmp_path, capsys):
    again = tmp_path / "again"
    assert runs.main(["pack", str(hopper), "--out", str(tmp_path / "run.zip")]) == 0
    assert runs.main(["unpack", *ROBOT, str(tmp_path / "run.zip"), "--out", str(again)]) == 0
    assert "--robot examples.own_robot" in capsys.readouterr().out
    assert plan.main([*ROBOT, "--run-dir", str(again), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["config"]["hop"]["speed"] == 1.5


def test_from_inside_its_folder_it_has_a_short_name():
    words = ["-m", "jaxrl_hw.plan", "--robot", "own_robot", "--help"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT / "examples",
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert "--hopper.strength FLOAT" in done.stdout
    assert plan.main(["--robot", "examples", "--help"]) == 2


OWN = ["--robot", "cartpole", "--algo", "examples.own_algorithm"]


def test_an_algorithm_of_your_own_trains_resumes_and_exports(root, tmp_path, capsys):
    part, whole = tmp_path / "part", tmp_path / "whole"
    small = [*OWN, *SMALL, "--cem.unroll", "20"]
    assert train.main([*small, "--iterations", "2", "--run-dir", str(part)]) == 0
    assert train.main([*OWN, "--iterations", "4", "--run-dir", str(part)]) == 0
    assert train.main([*small, "--iterations", "4", "--run-dir", str(whole)]) == 0
    rewards = [
        [json.loads(line)["elite_reward"] for line in (folder / "metrics.jsonl").open()]
        for folder in (part, whole)
    ]
    assert len(rewards[0]) == 4
    assert rewards[0] == rewards[1]
    assert runs.main(["show", str(whole), "--algo", "examples.own_algorithm"]) == 0
    assert "--algo examples.own_algorithm" in capsys.readouterr().out
    words = ["--run-dir", str(whole), "--out", str(tmp_path)]
    assert export.main([*words, "--algo", "examples.own_algorithm"]) == 0
    policy = load_policy(tmp_path / "policy.npz")
    assert policy.widths == (8,)
    assert np.isfinite(policy(np.zeros((2, 5), np.float32))).all()
