"""`--devices`: what a plan makes of it, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import Config, make_plan, preset_config
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware, detect
from jaxrl_hw.planning.devices import shards_of
from jaxrl_hw.train import main

GPUS = Hardware("gpu", "NVIDIA Test", 8, 16, 16 << 30, 15 << 30, "nvml")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "cache"))
    return replace(preset_config("g1"), physics="mjx", run_dir=str(tmp_path / "run"))


def test_all_takes_every_device_and_without_the_flag_a_run_takes_one(config: Config) -> None:
    assert make_plan(replace(config, devices="all"), GPUS).config.devices == 8
    assert make_plan(config, GPUS).config.devices == ""


def test_memory_is_of_each_device_and_environments_are_of_all(config: Config) -> None:
    config = replace(config, num_envs=4096)
    one, four = (make_plan(replace(config, devices=n), GPUS) for n in (1, 4))
    assert four.config.num_envs == 4096
    assert four.to_dict()["envs_per_device"] == 1024
    assert four.memory["rollout"] == one.memory["rollout"] // 4
    assert four.memory["networks"] == one.memory["networks"]


def test_auto_finds_a_number_that_divides_over_the_devices(config: Config) -> None:
    small = replace(config, max_envs=1021)
    for devices, expected in ((1, 1016), (3, 1020), (8, 1016)):
        plan = make_plan(replace(small, devices=devices), GPUS)
        assert plan.config.num_envs == plan.sizing.num_envs == expected


def test_several_processes_have_all_their_devices_and_each_its_part_of_the_memory(
    config: Config,
) -> None:
    config = replace(config, num_envs=4096)
    two = replace(GPUS, processes=2)
    plan, whole = make_plan(replace(config, devices="all"), two), make_plan(config, GPUS)
    assert plan.config.devices == 16
    assert plan.to_dict()["envs_per_device"] == 256
    assert plan.memory["rollout"] == pytest.approx(whole.memory["rollout"] / 16, rel=0.01)
    on_cpus = Hardware("cpu", "Test", 1, 4, 16 << 30, 15 << 30, "psutil", processes=4)
    native = replace(config, physics="native")
    alone = make_plan(replace(native, devices=1), replace(on_cpus, processes=1))
    shared = make_plan(replace(native, devices="all"), on_cpus)
    assert shared.config.devices == 4
    assert shared.memory["rollout"] == pytest.approx(alone.memory["rollout"] / 4, rel=0.01)
    assert shared.memory["networks"] == alone.memory["networks"]


def test_devices_must_divide_over_the_processes(config: Config) -> None:
    with pytest.raises(UserError) as refused:
        make_plan(replace(config, devices=3), replace(GPUS, processes=2))
    assert "--devices 2" in str(refused.value)


@pytest.mark.parametrize(
    ("num_envs", "devices", "shards"),
    [(4096, 1, 8), (4096, 8, 8), (20, 2, 4), (20, 1, 4), (7, 1, 1), (12, 3, 3), (64, 16, 16)],
)
def test_shards_are_eight_where_the_environments_and_devices_allow(
    num_envs: int, devices: int, shards: int
) -> None:
    assert shards_of(num_envs, devices) == shards


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"devices": 9}, ("9", "8", "--devices 8")),
        ({"devices": 8, "num_envs": 100}, ("100", "8", "96", "104")),
        ({"devices": 8, "num_envs": 3}, ("--num-envs 8",)),
        ({"devices": 2, "physics": "warp"}, ("warp", "mjx")),
        ({"devices": "some"}, ("some", "all")),
    ],
)
def test_what_cannot_be_divided_is_refused_with_a_suggestion(
    config: Config, changes: dict[str, object], words: tuple[str, ...]
) -> None:
    with pytest.raises(UserError) as refused:
        make_plan(replace(config, **changes), GPUS)  # type: ignore[arg-type]
    assert all(word in str(refused.value) for word in words)
    assert "\n" not in str(refused.value)


def test_a_refused_number_ends_the_command_with_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    argv = ["--robot", "cartpole", "--run-dir", str(folder), "--devices", "97"]
    assert main(argv) == 2
    assert "97" in capsys.readouterr().err
    assert not folder.exists()


def test_flags_of_xla_divide_a_cpu_into_devices() -> None:
    environ = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    assert detect(environ).count == 4
    assert detect({"JAX_PLATFORMS": "cpu"}).count == 1
