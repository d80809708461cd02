"""What an earlier version saved: settings that came later, settings that are gone."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import pytest

from jaxrl_hw import load_run
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.config.migrations import as_now
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.resolve import algorithm_needs
from jaxrl_hw.config.units import parse_early_stop
from jaxrl_hw.config.validation import from_dict, to_dict
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.policies.io import load_policy, save_policy
from jaxrl_hw.policies.sources import config_of
from jaxrl_hw.train import main

GOLDEN = Path(__file__).parents[1] / "golden/format-2"


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """A run of a version that could ease in and knew no phase mask."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "run"))


def config_in(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text())["config"])


def trained_with(folder: Path, **joystick: Any) -> None:
    record = json.loads((folder / "config.json").read_text())
    record["config"]["joystick"].update(joystick)
    (folder / "config.json").write_text(json.dumps(record))


def told(folder: Path, *more: str) -> list[str]:
    return ["--robot", "cartpole", "--run-dir", str(folder), "--iterations", "3", *more]


@pytest.mark.slow
def test_a_run_with_random_keys_of_an_earlier_kind_goes_on_and_says_so_once(
    older: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = load_run(older).state
    assert jax.random.key_data(before.key).shape == (4,), "not the kind that runs draw with now"
    said = []
    for goal in ("3", "4"):
        assert main([*told(older), "--iterations", goal]) == 0
        said.append("random numbers" in " ".join(capsys.readouterr().out.split()))
    assert said == [True, False]
    after = load_run(older).state
    assert after.key.dtype == jax.random.key(0).dtype
    assert int(after.iteration) == 4
    for old, new in zip(jax.tree.leaves(before.params), jax.tree.leaves(after.params), strict=True):
        assert float(abs(old - new).max()) < 0.05, "what was learned goes on"


@pytest.mark.slow
def test_a_setting_that_did_nothing_is_forgotten(older: Path) -> None:
    assert config_in(older)["joystick"]["ease_in"] == 0
    assert main(told(older)) == 0
    assert not {"ease_in", "ease_from"} & set(config_in(older)["joystick"])


@pytest.mark.slow
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


def as_saved(tmp_path: Path, config: dict[str, Any]) -> Path:
    """A run's folder with these settings and some checkpoint."""
    (tmp_path / "config.json").write_text(json.dumps({"format": 1, "config": config}))
    shutil.copytree(GOLDEN / "checkpoints", tmp_path / "checkpoints")
    return tmp_path


def before_curricula(**changes: Any) -> dict[str, Any]:
    """A g1_12dof run's settings of the last version that had stages by iteration."""
    config = to_dict(preset_config("g1_12dof"))
    del config["curriculum"]
    config["joystick"] |= {"later": LATER, "last": LAST, "finish": FINISH}
    return {**config, **changes}


LATER = {
    **{"iteration": 800, "zero_command": 0.25, "recovery_speed": 0.4, "yaw_rate": 2.0},
    **{"walking_power": -0.01, "landing": -5.0, "fall": -5.0},
}
LAST = LATER | {
    **{"iteration": 1800, "zero_command": 0.45, "recovery_speed": 0.45, "velocity_fine": 2.2},
    **{"standing_clock_speed": 0.45, "walking_power": -0.03, "fall": -15.0},
}
FINISH = LAST | {
    **{"iteration": 3000, "recovery_speed": 0.35, "standing_clock_speed": 0.35},
    **{"walking_power": -0.018, "velocity_fine": 2.7, "push_interval_s": 2.5, "foot_height": 1.5},
}


@pytest.mark.slow
def test_a_run_from_before_a_setting_goes_on_as_it_was(tmp_path: Path) -> None:
    """Its policy saw the phase, whatever the preset has come to be."""
    now = preset_config("g1_12dof")
    assert now.joystick.standing_phase == 0.25
    config = to_dict(now)
    del config["curriculum"]
    since = ("standing_phase", "recovery_speed")
    for name in (*since, "standing_phase_speed", "recovery_after_s"):
        del config["joystick"][name]
    for name in ("velocity_fine", "landing", "self_contact", "walking_power"):
        del config["joystick"]["reward"][name]
    folder = as_saved(tmp_path, config)
    for argv in (["--run-dir", str(folder)], ["--config", str(folder / "config.json")]):
        found = parse(["--robot", "g1_12dof", *argv])
        assert found.joystick.reward.self_contact == 0.0
        assert found.joystick.standing_phase == 1.0
        assert found.joystick.recovery_speed == found.joystick.reward.velocity_fine == 0.0
        assert found.joystick.recovery_after_s == 2.0, "a constant before it was a setting"
        assert found.joystick.standing_phase_speed == 0.0
        assert found.curriculum == ()


def test_stages_by_iteration_are_the_same_curriculum(tmp_path: Path) -> None:
    """256 environments and 24 steps, as in the preset: 6,144 samples per iteration."""
    folder = as_saved(tmp_path, before_curricula(num_envs=256))
    stages = parse(["--robot", "g1_12dof", "--run-dir", str(folder)]).curriculum
    assert [stage.env_steps for stage in stages] == [800 * 6144, 1800 * 6144, 3000 * 6144]
    later, last, finish = (dict(stage.settings) for stage in stages)
    assert later == {
        "joystick.zero_command": 0.25,
        "joystick.recovery_speed": 0.4,
        "joystick.reward.yaw_rate": 2.0,
        "joystick.reward.walking_power": -0.01,
        "joystick.reward.landing": -5.0,
        "joystick.reward.fall": -5.0,
    }
    assert last == {
        "joystick.zero_command": 0.45,
        "joystick.recovery_speed": 0.45,
        "joystick.standing_phase_speed": 0.45,
        "joystick.reward.velocity_fine": 2.2,
        "joystick.reward.walking_power": -0.03,
        "joystick.reward.fall": -15.0,
    }
    assert finish == {
        "joystick.recovery_speed": 0.35,
        "joystick.standing_phase_speed": 0.35,
        "joystick.push_interval_s": 2.5,
        "joystick.reward.velocity_fine": 2.7,
        "joystick.reward.walking_power": -0.018,
        "joystick.reward.foot_height": 1.5,
    }


def test_iterations_are_those_of_the_run(tmp_path: Path) -> None:
    """Past ones as metrics.jsonl has them, later ones at the size that the run has now."""
    folder = as_saved(tmp_path, before_curricula(num_envs=100))
    rows = [{"iteration": i, "env_steps": 5000 * i} for i in range(1, 1001)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    stages = parse(["--robot", "g1_12dof", "--run-dir", str(folder)]).curriculum
    begins = [stage.env_steps for stage in stages]
    assert begins == [800 * 5000, 1000 * 5000 + 800 * 2400, 1000 * 5000 + 2000 * 2400]


def in_iterations(**changes: Any) -> dict[str, Any]:
    """A g1_12dof run's settings of the last version that counted iterations and minibatches."""
    config = to_dict(preset_config("g1_12dof"))
    del config["timesteps"]
    for name in ("anneal_steps", "critic_warmup_steps", "minibatch_size"):
        del config["ppo"][name]
    config["ppo"] |= {"unroll": 24, "minibatches": 6, "anneal": 1620, "critic_warmup": 120}
    config |= {"iterations": 4400, "early_stop": "patience=800,min-delta=0.5", "num_envs": 256}
    return {**config, **changes}


def test_settings_in_iterations_are_read_in_env_steps_and_samples(tmp_path: Path) -> None:
    folder = as_saved(tmp_path, in_iterations())
    found = parse(["--robot", "g1_12dof", "--run-dir", str(folder)])
    assert (found.iterations, found.timesteps) == (4400, 0), "it ends where it was to end"
    assert (found.ppo.unroll, found.ppo.minibatch_size) == (24, 1024)
    assert found.ppo.anneal_steps == 1620 * 256 * 24
    assert found.ppo.critic_warmup_steps == 120 * 256 * 24
    assert parse_early_stop(found.early_stop) == (800 * 256 * 24, 0.5)
    assert as_now(to_dict(found)) == to_dict(found), "once only"


def test_iterations_of_settings_are_those_of_the_run(tmp_path: Path) -> None:
    folder = as_saved(tmp_path, in_iterations(num_envs=100))
    rows = [{"iteration": i, "env_steps": 5000 * i} for i in range(1, 1001)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = parse(["--robot", "g1_12dof", "--run-dir", str(folder)])
    assert found.ppo.anneal_steps == 1000 * 5000 + 620 * 2400
    assert found.ppo.critic_warmup_steps == 120 * 5000
    assert found.ppo.minibatch_size == 400, "of the 2,400 samples that it has now"


@pytest.mark.slow
def test_a_run_of_the_last_version_goes_on_with_its_minibatches(older: Path) -> None:
    assert config_in(older)["ppo"]["minibatches"] == 1
    assert main(told(older)) == 0
    now = config_in(older)
    samples = now["num_envs"] * now["ppo"]["unroll"]
    assert algorithm_needs(from_dict(now, preset_config("cartpole"), "")).minibatches(samples) == 1
    assert not {"minibatches", "anneal", "critic_warmup"} & set(now["ppo"])


@pytest.mark.slow
def test_collisions_that_were_switched_off_are_not_switched_on_in_silence(
    older: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained_with(older, self_collision=False)
    assert main(told(older)) == 2
    assert "joystick.self_collision was False" in capsys.readouterr().err
    assert main(told(older, "--override-config")) == 0


def test_a_stage_that_never_began_is_none() -> None:
    config = before_curricula(num_envs="auto")
    config["joystick"]["later"] = {**LATER, "iteration": 0}
    del config["joystick"]["finish"]
    (stage,) = as_now(config)["curriculum"]
    assert stage["env_steps"] == 1800 * 256 * 24
    assert stage["settings"]["joystick.reward.landing"] == -5.0, "the last one comes on its own"


@pytest.mark.slow
def test_the_command_line_continues_a_run_with_old_names(older: Path) -> None:
    """Its ppo.guide is today's ppo.motion_prior."""
    assert config_in(older)["ppo"]["guide"]
    assert main(told(older)) == 0
    assert config_in(older)["ppo"]["motion_prior"]
    assert "guide" not in config_in(older)["ppo"]


@pytest.mark.slow
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


def test_another_curriculum_is_another_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = as_saved(tmp_path, before_curricula(num_envs=256))
    words = ["--robot", "g1_12dof", "--run-dir", str(folder), "--physics", "native"]
    assert main([*words, "--curriculum", "2M: joystick.noise=0.7"]) == 2
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert '"4.9152M: joystick.zero-command=0.25' in line
    assert '"2M: joystick.noise=0.7"' in line


WALKER = [
    *("--robot", "g1_12dof", "--physics", "native", "--num-envs", "4", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "1", "--net.policy", "8", "--net.value", "8"),
    *("--ppo.no-motion-prior", "--curriculum", "none"),
]


@pytest.mark.slow
def test_a_run_goes_on_with_parts_of_a_robot_that_it_did_not_simulate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A walker from before delays has no state for them: its environments begin anew."""
    argv = [*WALKER, "--run-dir", str(tmp_path / "run")]
    assert main([*argv, "--iterations", "1"]) == 0
    record = json.loads((tmp_path / "run/config.json").read_text())
    for name in ("kp", "kd", "action_delay", "observation_delay", "imu_tilt", "joint_offset"):
        del record["config"]["joystick"][name]
    (tmp_path / "run/config.json").write_text(json.dumps(record))
    assert main([*argv, "--iterations", "2"]) == 0
    capsys.readouterr()
    now = ["--joystick.action-delay", "0", "0.02", "--joystick.kp", "0.9", "1.1"]
    assert main([*argv, *now, "--iterations", "3"]) == 2
    assert main([*argv, *now, "--iterations", "3", "--override-config"]) == 0
    assert "are reset" in " ".join(capsys.readouterr().out.split())
    assert main([*argv, *now, "--iterations", "4"]) == 0
    assert "are reset" not in " ".join(capsys.readouterr().out.split())
    rows = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert [json.loads(row)["iteration"] for row in rows] == [1, 2, 3, 4]
