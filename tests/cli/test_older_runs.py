"""What an earlier version saved: settings that came later, settings that are gone."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw.cli.flags import parse
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.envs.tasks.joystick.settings import STRETCHES
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.policies.io import load_policy, save_policy
from jaxrl_hw.policies.sources import config_of
from jaxrl_hw.train import main

pytestmark = pytest.mark.usefixtures("quick_compile")

GOLDEN = Path(__file__).parents[1] / "golden/format-2"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A run of a version that could ease in and knew no pause of the clock."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "run"))


def config_in(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text())["config"])


def trained_with(folder: Path, **joystick: Any) -> None:
    record = json.loads((folder / "config.json").read_text())
    record["config"]["joystick"].update(joystick)
    (folder / "config.json").write_text(json.dumps(record))


def told(folder: Path, *more: str) -> list[str]:
    return ["--robot", "cartpole", "--run-dir", str(folder), "--iterations", "3", *more]


def test_a_setting_that_did_nothing_is_forgotten(older: Path) -> None:
    assert config_in(older)["joystick"]["ease_in"] == 0
    assert main(told(older)) == 0
    assert not {"ease_in", "ease_from"} & set(config_in(older)["joystick"])


def test_a_setting_that_was_at_work_is_not_left_out_in_silence(
    older: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_with(older, ease_in=800)
    assert main(told(older)) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert "joystick.ease_in was 800" in err
    assert "--override-config" in err
    assert main(told(older, "--override-config")) == 0
    assert "joystick.ease_in was 800" in " ".join(capsys.readouterr().out.split())
    assert main([*told(older), "--iterations", "4"]) == 0, "it is the run's no more"


def test_a_run_from_before_a_setting_goes_on_as_it_was(tmp_path: Path) -> None:
    """Its bodies collided and its policy saw the clock, whatever the preset has come to be."""
    now = preset_config("g1_12dof")
    assert (now.joystick.self_collision, now.joystick.standing_phase) == (False, 0.25)
    joystick = asdict(now.joystick)
    since = ("self_collision", "standing_phase", "swing_exponent", "recovery_speed")
    for name in (*since, "standing_phase_speed", "recovery_after_s", *STRETCHES):
        del joystick[name]
    for name in ("velocity_fine", "landing", "walking_power"):
        del joystick["reward"][name]
    record = {"format": 1, "config": {**asdict(now), "joystick": joystick}}
    (tmp_path / "config.json").write_text(json.dumps(record))
    shutil.copytree(GOLDEN / "checkpoints", tmp_path / "checkpoints")
    for argv in (["--run-dir", str(tmp_path)], ["--config", str(tmp_path / "config.json")]):
        config = parse(["--robot", "g1_12dof", *argv])
        assert config.joystick.self_collision
        assert config.joystick.standing_phase == 1.0
        assert config.joystick.swing_exponent == 1.0
        assert config.joystick.recovery_speed == config.joystick.reward.velocity_fine == 0.0
        assert config.joystick.recovery_after_s == 2.0, "a constant before it was a setting"
        assert config.joystick.standing_phase_speed == 0.0
        begins = {getattr(config.joystick, stretch).iteration for stretch in STRETCHES}
        assert begins == {0}


def test_a_policy_file_with_a_setting_that_is_gone_is_opened(
    cartpole_run: Any, tmp_path: Path
) -> None:
    policy = portable(cartpole_run.config, cartpole_run.state)
    saved = policy.meta["config"]
    older = {
        **saved,
        "joystick": {**saved["joystick"], "ease_in": 800, "ease_from": 0.25, "pause_clock": True},
    }
    path = tmp_path / "older.npz"
    save_policy(replace(policy, meta={**policy.meta, "config": older}), path)
    assert config_of(load_policy(path), str(path)) == config_of(policy, "now.npz")


def test_by_hand_it_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.json").write_text('{"joystick": {"ease_in": 5}}')
    assert main(["--robot", "g1_12dof", "--config", str(tmp_path / "mine.json")]) == 2
    assert "ease_in" in capsys.readouterr().err
