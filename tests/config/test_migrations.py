"""Settings of earlier versions, and what they say of the simulation that they were trained in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import preset_config
from jaxrl_hw.cli.evaluate import main
from jaxrl_hw.config.migrations import as_now, lost, since_trained
from jaxrl_hw.config.saved import config_from
from jaxrl_hw.config.validation import to_dict
from jaxrl_hw.policies.io import save_policy
from jaxrl_hw.policies.sources import open_policy


def before_collisions(self_collision: bool) -> dict:
    saved = to_dict(preset_config("g1_12dof"))
    del saved["joystick"]["reward"]["self_contact"]
    saved["joystick"]["self_collision"] = self_collision
    return saved


def test_a_walker_from_before_collisions_is_known_as_such() -> None:
    for self_collision in (True, False):
        assert "collisions" in since_trained(before_collisions(self_collision), "joystick")
    assert since_trained(to_dict(preset_config("g1_12dof")), "joystick") == ""
    assert since_trained(to_dict(preset_config("cartpole")), "cartpole") == ""


def test_self_collision_is_gone_and_its_reward_is_as_it_was() -> None:
    now = as_now(before_collisions(False))
    assert "self_collision" not in now["joystick"]
    assert now["joystick"]["reward"]["self_contact"] == 0.0
    assert lost(before_collisions(False)) == [("joystick.self_collision", False)]
    assert lost(before_collisions(True)) == []


def test_a_run_from_before_memory_and_estimation_continues_without_them() -> None:
    saved = to_dict(preset_config("g1"))
    del saved["net"]["memory"], saved["ppo"]["estimation_coef"]
    config = config_from(as_now(saved), "saved")
    assert (config.net.memory, config.ppo.estimation_coef) == ("none", 0.0)


@pytest.mark.slow
def test_evaluate_says_it_of_the_policy_and_keeps_its_json_clean(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    policy, file = open_policy("zoo:g1_12dof"), tmp_path / "old.npz"
    before = policy.meta | {"config": before_collisions(False)}
    save_policy(replace(policy, meta=before), file)
    assert main(["--policy", str(file), "--seconds", "3", "--json"]) == 0
    shown = capsys.readouterr()
    assert str(file) in shown.err
    assert "collisions" in shown.err
    assert shown.out.startswith("{")
