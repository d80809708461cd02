"""What can be asked for, on the command line and in files, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import Config
from jaxrl_hw.cli.flags import parse, run_folder
from jaxrl_hw.train import main

SMALL = ["--robot", "cartpole", "--num-envs", "8", "--ppo.minibatches", "2", "--no-tensorboard"]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error a command has just written, which must be one line."""
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--num-envs", "0"], '--num-envs must be "auto" or a whole number of at least 1, got "0"'),
        (["--num-envs", "-5"], "--num-envs"),
        (["--num-envs=-5"], 'got "-5"'),
        (["--num-envs", "abc"], 'got "abc"'),
        (["--num-envs", "1000000000"], "at most"),
        (
            ["--num-envs", "7", "--ppo.unroll", "5"],
            "= 35 samples do not divide into 2 minib",
        ),
        (["--robot", "g11"], 'unknown robot "g11": known are cartpole, g1, g1_12dof, go1; did you'),
        (["--task", "joystik"], 'unknown task "joystik"'),
        (["--preset", "fastest"], 'unknown preset "fastest"'),
        (["--algo", "sac"], "ppo"),
        (["--physics", "warp"], 'unknown physics "warp": known are auto, mjx, native'),
        (["--precision", "float16"], 'unknown precision "float16"'),
        (["--iteration", "5"], 'unknown flag "--iteration"; did you mean "--iterations"?'),
        (["--ppo.gama", "0.9"], 'did you mean "--ppo.gamma"?'),
        (["--ppo.gamma", "1.5"], "--ppo.gamma must be from 0 to 1.0, got 1.5"),
        (["--ppo.gamma", "much"], '--ppo.gamma takes a number, got "much"'),
        (["--iterations", "0"], "--iterations must be at least 1, got 0"),
        (["--iterations", "many"], '--iterations takes a whole number, got "many"'),
        (["--time-limit", "soon"], "--time-limit must be like 85m, 2h, 300s or 1h30m"),
        (["--mem-fraction", "80"], '--mem-fraction must be "auto" or a number from 0.05 to 0.95'),
        (
            ["--joystick.later.zero-command", "2"],
            "--joystick.later.zero-command must be from 0 to 1",
        ),
        (
            ["--joystick.later.iteration", "500", "--joystick.finish.iteration", "400"],
            "--joystick.finish.iteration 400 must not be below --joystick.later.iteration 500",
        ),
        (["--joystick.later.iteration", "-1"], "--joystick.later.iteration must be at least 0"),
        (
            ["--joystick.later.iteration", "500", "--joystick.last.iteration", "400"],
            "--joystick.last.iteration 400 must not be below --joystick.later.iteration 500",
        ),
        (
            ["--joystick.last.standing-phase-speed", "-0.1"],
            "--joystick.last.standing-phase-speed must be at least 0",
        ),
        (
            ["--joystick.later.walking-power", "nan"],
            "--joystick.later.walking-power must be a finite number",
        ),
        (["--timestep", "0.003"], "--timestep must divide the control step of 0.02 s, got 0.003"),
        (["--cartpole.pole-mass", "1.1", "0.9"], "must be a range, low first"),
        (["fast"], 'unexpected argument "fast"'),
        (["--config", "nowhere.json"], "--config nowhere.json cannot be read"),
        (["--seed"], "--seed"),
        (["--early-stop", "300"], 'like patience=300,min-delta=0.5; got "300"'),
        (["--early-stop", "patience=2,patience=3"], "--early-stop takes patience=ITERATIONS"),
        (["--early-stop", "min-delta=1"], "--early-stop takes patience=ITERATIONS"),
        (["--early-stop", "patience=0"], "a patience of at least 1"),
        (["--early-stop", "patience=9,min-delta=nan"], "a min-delta of at least 0"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line_before_anything_is_made(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main([*SMALL, "--run-dir", str(folder), *argv]) == 2
    assert message in one_line(capsys)
    assert not (folder / "metrics.jsonl").exists()
    assert not (folder / "config.json").exists()


def test_a_run_folder_that_is_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    assert main([*SMALL, "--run-dir", str(path)]) == 2
    assert "--run-dir must be a folder" in one_line(capsys)
    assert path.read_text() == "mine"


def test_bad_input_is_told_by_the_process_at_once_and_as_one_line(
    train_process: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, err = train_process("--robot", "g2")
    assert code == 2
    assert out == ""
    assert err.startswith('error: unknown robot "g2"')
    assert err.count("\n") == 1


@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_config_file_sets_and_flags_win(suffix: str, tmp_path: Path) -> None:
    values = {
        "robot": "cartpole",
        "iterations": 7,
        "ppo": {"gamma": 0.5, "unroll": 16},
        "net": {"policy": [32, 16]},
        "cartpole": {"pole_mass": [1, 2]},
    }
    text = json.dumps(values)
    if suffix == ".yaml":
        text = """
            robot: cartpole
            iterations: 7
            ppo: {gamma: 0.5, unroll: 16}
            net:
              policy: [32, 16]
            cartpole:
              pole_mass: [1, 2]
        """
    path = tmp_path / f"mine{suffix}"
    path.write_text(text)
    config = parse(
        ["--config", str(path), "--ppo.gamma", "0.75", "--run-dir", str(tmp_path / "run")]
    )
    assert (config.robot, config.iterations) == ("cartpole", 7)
    assert (config.ppo.gamma, config.ppo.unroll) == (0.75, 16)
    assert config.net.policy == (32, 16)
    assert config.cartpole.pole_mass == (1.0, 2.0)
    # the rest is the robot's preset, not the bare defaults
    assert config.net.value == (64, 64)
    assert config.ppo.symmetry == "none"
    assert Config().ppo.symmetry != "none"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"ppo": {"gama": 0.9}}', 'unknown setting "ppo.gama"; did you mean "gamma"?'),
        ('{"iterations": "many"}', '"iterations" must be int'),
        ('{"ppo": 3}', '"ppo" must hold settings'),
        ("[1, 2]", "must hold settings by name"),
        ('{"ppo": {', "is not valid JSON or YAML"),
    ],
)
def test_a_faulty_config_file_is_named_with_its_fault(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    assert main(["--robot", "cartpole", "--config", str(path), "--run-dir", str(tmp_path)]) == 2
    line = one_line(capsys)
    assert message in line
    assert "mine.json" in line


def test_flags_are_read_with_hyphens_or_underscores(tmp_path: Path) -> None:
    common = ["--robot", "cartpole", "--run-dir", str(tmp_path / "run")]
    a = parse([*common, "--num-envs", "8", "--ppo.value-clip", "0.2", "--save-every=5"])
    b = parse([*common, "--num_envs=8", "--ppo.value_clip=0.2", "--save_every", "5"])
    assert a == b
    assert (a.num_envs, a.ppo.value_clip, a.save_every) == (8, 0.2, 5)


def test_the_folder_of_a_run_is_named_after_it(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    config = parse(["--robot", "cartpole", "--seed", "4"])
    assert run_folder(config) == Path("runs/cartpole-cartpole-ppo-4")
    config = parse(["--robot", "go1"])
    assert run_folder(config) == Path("runs/go1-joystick-ppo-0")
