"""Which physics engine a plan takes, by the device and what is installed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import Config, make_plan, preset_config
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.passed_checks import remember
from jaxrl_hw.planning.engine import warp_versions
from jaxrl_hw.planning.warp_scratch import warp_scratch

GPU = Hardware("gpu", "NVIDIA Test", 1, 8, 16 << 30, 15 << 30, "nvml")
TPU = replace(GPU, platform="tpu", name="TPU v5 lite")
CPU = replace(GPU, platform="cpu", name="a CPU")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "cache"))
    return replace(preset_config("g1"), num_envs=256, run_dir=str(tmp_path / "run"))


@pytest.fixture
def warp_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "warp", None)  # as an import would find it


def needs_warp() -> None:
    pytest.importorskip("warp", reason='needs pip install "jaxrl_hw[warp]"')


def test_auto_takes_the_c_engine_on_a_cpu_and_mjx_on_a_tpu(config: Config) -> None:
    assert make_plan(config, CPU).config.physics == "native"
    assert make_plan(config, TPU).config.physics == "mjx"


@pytest.mark.usefixtures("warp_missing")
def test_auto_takes_mjx_on_a_gpu_without_warp(config: Config) -> None:
    plan = make_plan(config, GPU)
    assert plan.config.physics == "mjx"
    assert not any("Warp" in warning for warning in plan.warnings)


def test_auto_takes_warp_on_a_gpu_where_the_doctor_has_passed_it(config: Config) -> None:
    needs_warp()
    unknown = make_plan(config, GPU)
    assert unknown.config.physics == "mjx"
    assert any("doctor" in warning for warning in unknown.warnings)
    remember("warp", GPU.name, warp_versions())
    assert make_plan(config, GPU).config.physics == "warp"
    assert make_plan(config, replace(GPU, name="another")).config.physics == "mjx"
    assert make_plan(replace(config, deterministic=True), GPU).config.physics == "mjx"
    remember("warp", GPU.name, {**warp_versions(), "warp-lang": "1.0.0"})
    assert make_plan(config, GPU).config.physics == "mjx"


@pytest.mark.usefixtures("warp_missing")
def test_warp_that_is_not_installed_is_refused_with_the_command(config: Config) -> None:
    with pytest.raises(UserError, match=r"pip install .*\[warp\]"):
        make_plan(replace(config, physics="warp"), GPU)


def test_a_plan_counts_what_warp_takes_beside_jax_and_leaves_room_for_it(config: Config) -> None:
    needs_warp()
    asked = replace(config, physics="warp")
    assert make_plan(asked, GPU).memory["physics"] == 256 * warp_scratch(29 + 6)
    assert make_plan(replace(config, physics="mjx"), GPU).memory["physics"] == 0
    crowded = replace(GPU, memory_free=1_400_000_000)
    plan = make_plan(replace(asked, num_envs="auto"), crowded)
    budget, need = plan.sizing.budget_bytes or 0, plan.footprint.total
    number = int(plan.config.num_envs)
    assert plan.memory["physics"] == number * warp_scratch(29 + 6)
    assert need.total(number) <= budget
    assert number < 0.9 * (budget - need.fixed) / (need.per_env - warp_scratch(29 + 6))


def test_warp_is_refused_where_it_cannot_do_what_is_asked(config: Config) -> None:
    needs_warp()
    asked = replace(config, physics="warp")
    with pytest.raises(UserError, match="TPU"):
        make_plan(asked, TPU)
    with pytest.raises(UserError, match="deterministic"):
        make_plan(replace(asked, deterministic=True), GPU)
    slow = make_plan(replace(asked, deterministic=True), CPU)
    assert slow.config.physics == "warp"
    assert any("slower" in warning for warning in slow.warnings)
