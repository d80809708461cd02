"""What can be asked for, on the command line and in files, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import Config, make_plan, preset_config
from jaxrl_hw.cli.flags import parse, run_folder
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.train import main

SMALL = ["--robot", "cartpole", "--num-envs", "8", "--ppo.minibatch-size", "16", "--no-tensorboard"]


def one_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The error a command has just written, which must be one line."""
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (["--num-envs", "0"], ["--num-envs", '"auto"', '"0"']),
        (["--num-envs", "-5"], ["--num-envs"]),
        (["--num-envs=-5"], ["--num-envs", '"-5"']),
        (["--num-envs", "abc"], ["--num-envs", '"abc"']),
        (["--num-envs", "1000000000"], ["--num-envs", "1000000000"]),
        (["--robot", "g11"], ['"g11"', "g1, g1_12dof, go1", '"g1"?']),
        (["--task", "joystik"], ['"joystik"', '"joystick"?']),
        (["--preset", "fastest"], ['"fastest"', "auto, best, fast, optimized"]),
        (["--algo", "sacc"], ['"sacc"', '"sac"?']),
        (["--physics", "bullet"], ['"bullet"', "auto, mjx, native, warp"]),
        (["--precision", "float16"], ['"float16"', '"bfloat16"?']),
        (["--ppo.symmetry", "both"], ['ppo symmetry "both"', "augment, loss, network, none"]),
        (["--iteration", "5"], ['"--iteration"', '"--iterations"?']),
        (["--ppo.gama", "0.9"], ['"--ppo.gama"', '"--ppo.gamma"?']),
        (["--ppo.gamma", "1.5"], ["--ppo.gamma", "0", "1", "1.5"]),
        (["--ppo.gamma", "much"], ["--ppo.gamma", '"much"']),
        (["--ppo.lr-min", "0.1"], ["--ppo.lr-min 0.1", "--ppo.lr-max 0.002"]),
        (["--iterations", "0"], ["--iterations", "--timesteps"]),
        (["--timesteps", "0"], ["--iterations", "--timesteps"]),
        (["--timesteps", "0", "--iterations", "0"], ["--iterations", "--timesteps"]),
        (["--timesteps", "-3"], ["--timesteps", "-3"]),
        (["--timesteps", "lots"], ["--timesteps", '"lots"', "4.9M"]),
        (["--timesteps", "1.5"], ["--timesteps", '"1.5"']),
        (["--iterations", "-1"], ["--iterations", "0", "-1"]),
        (["--ppo.unroll", "-1"], ["--ppo.unroll", "0", "-1"]),
        (["--ppo.minibatch-size", "0"], ["--ppo.minibatch-size", "1", "0"]),
        (["--ppo.anneal-steps", "soon"], ["--ppo.anneal-steps", '"soon"']),
        (["--iterations", "many"], ["--iterations", '"many"']),
        (["--time-limit", "soon"], ["--time-limit", "85m", '"soon"']),
        (["--mem-fraction", "80"], ["--mem-fraction", "0.95", "80", "0.8?"]),
        (["--net.policy"], ["--net.policy"]),
        (["--net.policy", "64", "0"], ["--net.policy", "64 0"]),
        (["--joystick.zero-command", "2"], ["--joystick.zero-command", "1", "2"]),
        (["--joystick.noise", "-0.1"], ["--joystick.noise", "-0.1"]),
        (["--joystick.vx", "1"], ["--joystick.vx", '"1"']),
        (["--joystick.reward.slip", "nan"], ["--joystick.reward.slip", "nan"]),
        (["--joystick.friction", "0", "1"], ["--joystick.friction", "0.0 1.0"]),
        (["--timestep", "0.003"], ["--timestep", "0.02 s", "0.003"]),
        (["--cartpole.pole-mass", "1.1", "0.9"], ["--cartpole.pole-mass", "1.1 0.9"]),
        (["fast"], ['"fast"']),
        (["--config", "nowhere.json"], ["--config nowhere.json"]),
        (["--seed"], ["--seed"]),
        (["--early-stop", "2M"], ["--early-stop", '"2M"']),
        (["--early-stop", "patience=2M,patience=3M"], ["--early-stop", "patience"]),
        (["--early-stop", "min-delta=1"], ["--early-stop", "patience"]),
        (["--early-stop", "patience=0"], ["patience", "1k"]),
        (["--early-stop", "patience=300"], ["patience=300", "1k"]),
        (["--early-stop", "patience=2M,min-delta=nan"], ["min-delta", "nan"]),
        (["--ppo.no-guide"], ['"--ppo.no-guide"', '"--ppo.motion-prior"']),
        (["--ppo.guide", "True"], ['"--ppo.guide"', '"--ppo.motion-prior"']),
        (["--ppo.minibatches", "4"], ['"--ppo.minibatches"', '"--ppo.minibatch-size"', "samples"]),
        (["--ppo.anneal", "540"], ['"--ppo.anneal"', '"--ppo.anneal-steps"', "env steps"]),
        (["--ppo.critic-warmup=9"], ['"--ppo.critic-warmup"', '"--ppo.critic-warmup-steps"']),
        (["--joystick.no-self-collision"], ['"--joystick.no-self-collision"']),
        (["--joystick.standing-clock=0"], ['"--joystick.standing-phase"']),
        (["--joystick.last.fall", "-9"], ['"--joystick.last.fall"', '"--curriculum"']),
        (["--curriculum", "soon"], ["--curriculum", '"soon"']),
        (["--curriculum", "1M:"], ["--curriculum", '"1M:"']),
        (["--curriculum", "x: cartpole.start-angle=1"], ["--curriculum", '"x"']),
        (["--curriculum", "1M: cartpole.start-angel=1"], ['"cartpole.start_angle"?']),
        (["--curriculum", "1M: ppo.gamma=0.9"], ['"ppo.gamma"', "cartpole.pole_mass"]),
        (["--curriculum", "1M: cartpole.start-angle=far"], ['"cartpole.start_angle"', "'far'"]),
        (["--curriculum", "1M: cartpole.pole-mass=2,1"], ["cartpole.pole_mass", "2.0 1.0"]),
        (["--curriculum", "1M: cartpole.pole-mass=0,1"], ["cartpole.pole_mass", "0.0 1.0"]),
        (
            ["--curriculum", "2M: cartpole.start-angle=1", "1M: cartpole.start-angle=2"],
            ["--curriculum", "1000000", "2000000"],
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line_before_anything_is_made(
    argv: list[str], named: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert main([*SMALL, "--run-dir", str(folder), *argv]) == 2
    line = one_line(capsys)
    assert [word for word in named if word not in line] == []
    assert not (folder / "metrics.jsonl").exists()
    assert not (folder / "config.json").exists()


def test_a_run_folder_that_is_a_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine")
    assert main([*SMALL, "--run-dir", str(path)]) == 2
    line = one_line(capsys)
    assert "--run-dir" in line
    assert str(path) in line
    assert path.read_text() == "mine"


def test_bad_input_is_told_by_the_process_at_once_and_as_one_line(
    train_process: Callable[..., tuple[int, str, str]],
) -> None:
    code, out, err = train_process("--robot", "g2")
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert '"g2"' in err
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
    assert config.timesteps == 0, "the goal of the file alone"
    assert (config.ppo.gamma, config.ppo.unroll) == (0.75, 16)
    assert config.net.policy == (32, 16)
    assert config.cartpole.pole_mass == (1.0, 2.0)
    # the rest is the robot's preset, not the bare defaults
    assert config.net.value == (64, 64)
    assert config.ppo.symmetry == "none"
    assert Config().ppo.symmetry != "none"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"ppo": {"gama": 0.9}}', ['"ppo.gama"', '"ppo.gamma"?']),
        ('{"iterations": "many"}', ['"iterations"', "'many'"]),
        ('{"ppo": 3}', ['"ppo"', "3"]),
        ('{"ppo": {"lr_schedule": "slow"}}', ['"slow"', "adaptive, fixed"]),
        ('{"net": {"policy": 64}}', ['"net.policy"', "64"]),
        ("[1, 2]", ["list"]),
        ('{"ppo": {', ["JSON"]),
        ('{"ppo": {"value_first": 5}}', ['"ppo.value_first"', '"ppo.critic_warmup_steps"']),
        ('{"ppo": {"minibatches": 5}}', ['"ppo.minibatches"', '"ppo.minibatch_size"']),
        ('{"timesteps": "many"}', ['"timesteps"', '"many"']),
        ('{"joystick": {"later": {"iteration": 5}}}', ["joystick.later", '"curriculum"']),
        ('{"joystick": {"ease_in": 5}}', ['"joystick.ease_in"']),
        ('{"curriculum": 5}', ['"curriculum"', "5"]),
        ('{"curriculum": [{"settings": {}}]}', ['"env_steps"']),
        ('{"curriculum": [{"env_steps": -1, "settings": {}}]}', ['"env_steps"', "-1"]),
    ],
)
def test_a_faulty_config_file_is_named_with_its_fault(
    text: str, named: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.json"
    path.write_text(text)
    assert main(["--robot", "cartpole", "--config", str(path), "--run-dir", str(tmp_path)]) == 2
    line = one_line(capsys)
    assert [word for word in [*named, "mine.json"] if word not in line] == []


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


def test_help_tells_choices_units_and_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(["--robot", "g1_12dof", "--help"])
    assert stop.value.code == 0
    shown = " ".join(capsys.readouterr().out.split())
    for words in (
        "--preset {fast,optimized,best,auto}",
        "--physics {auto,mjx,native,warp}",
        "Time limit of an episode (a truncation). [s, >= 0.1] (default: 20.0)",
        "[m/s] (default: -1.2 1.2)",
        "--ppo.motion-prior, --ppo.no-motion-prior",
        "'4.9152M: joystick.noise=1.0",
    ):
        assert words in shown, words


H100 = Hardware("gpu", "NVIDIA H100 80GB HBM3", 1, 16, 80 << 30, 79 << 30, "nvml")


def test_preset_auto_is_settled_by_the_device(tmp_path: Path) -> None:
    argv = ["--robot", "go1", "--run-dir", str(tmp_path / "run"), "--preset", "auto"]
    assert parse(argv) == replace(preset_config("go1"), run_dir=str(tmp_path / "run"))
    assert parse(argv, hardware=H100).preset == "best"
    assert parse(argv, hardware=H100).net == preset_config("go1", "best").net
    assert preset_config("go1", "auto").preset == "optimized"
    file = tmp_path / "config.yaml"
    file.write_text("robot: go1\npreset: auto\nseed: 5\n")
    config = parse(["--config", str(file)], hardware=H100)
    assert (config.preset, config.seed) == ("best", 5)
    assert config.timesteps == preset_config("go1", "best").timesteps


@pytest.mark.slow
def test_a_run_keeps_the_preset_that_auto_took(tmp_path: Path) -> None:
    argv = [*SMALL, "--physics", "native", "--run-dir", str(tmp_path / "run"), "--preset"]
    assert main([*argv, "fast", "--iterations", "1"]) == 0
    assert parse([*argv, "auto"], hardware=H100).preset == "fast"
    assert main([*argv, "auto", "--iterations", "2"]) == 0
    saved = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert saved["preset"] == "fast"


def test_a_config_whose_preset_is_not_settled_is_refused() -> None:
    with pytest.raises(UserError):
        make_plan(replace(preset_config("cartpole"), preset="auto"))
