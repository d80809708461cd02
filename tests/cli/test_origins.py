"""`plan` says where each setting comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import plan, train
from jaxrl_hw.config.presets import config_class
from jaxrl_hw.config.validation import to_dict


def origins(capsys: pytest.CaptureFixture[str], *words: str | Path) -> dict[str, Any]:
    """(value, origin) by key, of a plan for a card that is not here or, with --here, for this."""
    where = ["--gpu", "t4"] if "--here" not in words else []
    given = [str(word) for word in words if word != "--here"]
    assert plan.main([*given, *where, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    settings = found["config"]
    for key, one in found["origins"].items():
        value = settings
        for name in key.split("."):
            value = value[name]
        assert value == one["value"], key
    return {key: (one["value"], one["origin"]) for key, one in found["origins"].items()}


def test_each_layer_lies_above_the_ones_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("robot: go1\nppo: {gamma: 0.9, gae_lambda: 0.9}\nnet: {policy: [64]}\n")
    found = origins(capsys, "--config", file, "--ppo.gamma", "0.95", "--ppo.epochs", "4")
    assert found["ppo.gamma"] == (0.95, "command line")
    assert found["ppo.epochs"] == (4, "command line"), "given, though it is the default"
    assert found["ppo.gae_lambda"] == (0.9, f"file {file}")
    assert found["net.policy"] == ([64], f"file {file}")
    assert found["net.memory"] == ("history", "preset optimized")
    assert found["num_envs"][1] == found["ppo.unroll"][1] == "for the T4"
    assert "seed" not in found, "at its default"


def test_every_setting_that_is_not_at_its_default_has_an_origin(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = origins(capsys, "--robot", "g1", "--preset", "auto")
    assert found["preset"] == ("optimized", "the card's profile")
    assert plan.main(["--robot", "g1", "--preset", "auto", "--gpu", "t4", "--json"]) == 0
    settings = json.loads(capsys.readouterr().out)["config"]
    plain = to_dict(config_class("g1")())
    for group in ("ppo", "net", "joystick"):
        changed = {k for k, v in settings[group].items() if v != plain[group][k]}
        assert {k for k in changed if k != "reward"} <= {
            key.partition(".")[2] for key in found if key.startswith(f"{group}.")
        }


@pytest.mark.slow
def test_what_a_run_has_settled_comes_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny = ["--robot", "cartpole", "--run-dir", str(tmp_path), "--no-tensorboard"]
    first = ["--num-envs", "8", "--ppo.unroll", "4", "--net.policy", "8", "--iterations", "1"]
    assert train.main([*tiny, *first]) == 0
    capsys.readouterr()
    found = origins(capsys, *tiny, "--iterations", "2", "--here")
    assert found["net.policy"] == ([8], f"run {tmp_path}")
    assert found["ppo.unroll"] == (4, f"run {tmp_path}")
    assert found["num_envs"] == (8, "the run so far")
    assert found["iterations"] == (2, "command line")
