"""A manifest is checked as a whole, with line numbers, before anything is trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import jaxrl_hw
from jaxrl_hw.cli.experiment.manifest import read_manifest
from jaxrl_hw.experiment import main

EXAMPLES = Path(jaxrl_hw.__file__).parents[1] / "examples"


@pytest.fixture
def written(tmp_path):
    """written(text): the path of a manifest."""

    def write(text):
        path = tmp_path / "plan.yaml"
        path.write_text(text)
        return path

    return write


def test_a_run_is_made_of_each_robot_variant_and_seed(written):
    cells = read_manifest(
        written("""
robots: [cartpole, go1]
seeds: [3, 4]
base: {num_envs: 64, ppo: {gamma: 0.9}}
variants:
  plain: {}
  wide: {net.policy: [64, 64], ppo: {gamma: 0.8}}
""")
    )
    assert [cell.name for cell in cells] == [
        *("cartpole-ppo-plain-3", "cartpole-ppo-plain-4"),
        *("cartpole-ppo-wide-3", "cartpole-ppo-wide-4"),
        *("go1-ppo-plain-3", "go1-ppo-plain-4", "go1-ppo-wide-3", "go1-ppo-wide-4"),
    ]
    last = cells[-1]
    assert (last.config.robot, last.config.seed, last.config.num_envs) == ("go1", 4, 64)
    assert (last.config.net.policy, last.config.ppo.gamma) == ((64, 64), 0.8)
    assert cells[0].config.ppo.gamma == 0.9
    json.dumps(last.settings)  # for train --config


def test_a_setting_may_make_an_algorithm_fit_its_robot(written):
    text = "robots: [cartpole]\nalgorithms: [dqn]\nbase: {iterations: 5, discrete_actions: 3}"
    (cell,) = read_manifest(written(text))
    assert (cell.config.algo, cell.config.discrete_actions) == ("dqn", 3)


def test_the_example_trains_what_it_says(capsys):
    assert main([str(EXAMPLES / "mini.yaml"), "--dry-run"]) == 0
    folders = capsys.readouterr().out.split()
    assert len(folders) == 4
    assert {str(Path(folder).parent) for folder in folders} == {"runs/mini"}


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("robots: [cartpole]\nseed: [0]", 2, '"seeds"'),
        ("robots:\n  - cartpole\n  - cartpol", 3, '"cartpole"'),
        ("robots: [cartpole]\nalgorithms: [pppo]", 2, '"ppo"'),
        ("robots: [cartpole]\nbase:\n  ppo:\n    gama: 0.9", 4, '"ppo.gamma"'),
        ("robots: [cartpole]\nbase:\n  num_envs: 8\n  ppo.gamma: 2.0", 4, "at most 1"),
        ("robots: [cartpole]\nvariants:\n  a:\n    preset: fats", 4, '"fast"'),
        ("robots: [cartpole]\nvariants:\n  a b: {}", 3, "a b"),
        ("robots: [cartpole]\nseeds: [0, 1.5]", 2, "1.5"),
        ("robots: [cartpole]\nseeds: [0,\n 0]", 3, "twice"),
        ("robots: [cartpole]\nbase:\n  seed: 3", 3, "seeds"),
        ("robots: [cartpole]\nbase:\n  run_dir: x", 3, "run_dir"),
        ("robots: cartpole", 1, "list"),
        ("robots: [cartpole]\nrobots: [g1]", 2, "twice"),
        ("robots: [cartpole]\nbase: [", 2, "YAML"),
        ("- cartpole", 1, "by name"),
        ("robots: [cartpole]\nalgorithms:\n  - ppo\n  - dqn", 4, "cartpole_discrete"),
        ("robots: [cartpole]\nalgorithms: [dqn]\nbase:\n  iterations: 5", 2, "cartpole"),
        ("robots: [cartpole_discrete]\nalgorithms: [dqn,\n sac]", 3, "dqn"),
        ("robots: [cartpole]\nbase:\n  sac.batch_size: 8", 3, "sac"),
        ("robots: [cartpole]\nbase:\n  timesteps: 0\n  iterations: 0", 3, "goal"),
    ],
)
def test_bad_input_names_its_line_and_trains_nothing(written, capsys, tmp_path, text, line, hint):
    path = written(text)
    assert main([str(path), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"plan.yaml, line {line}:" in error
    assert hint in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("text", ["", "seeds: [0]"])
def test_an_experiment_needs_robots(written, capsys, text):
    assert main([str(written(text))]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_file_that_is_not_there_is_bad_input(tmp_path, capsys):
    assert main([str(tmp_path / "none.yaml")]) == 2
    assert "none.yaml" in capsys.readouterr().err
