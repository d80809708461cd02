"""A plan follows from settings and hardware alone, and stays consistent when it is resized."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import Plan, make_plan, preset_config
from jaxrl_hw.algos.ppo_settings import unroll_for
from jaxrl_hw.config.resolve import algorithm_needs
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.hardware.measurement_cache import store
from jaxrl_hw.planning.memory_model import ITEMS, estimate, program_key
from jaxrl_hw.types import ReplayNeeds

GB = 10**9
CPU = Hardware("cpu", "EPYC", 1, 2, 16 * GB, 10 * GB, "psutil available")
T4 = Hardware("gpu", "Tesla T4", 1, 2, 16 * GB, 15 * GB, "nvml")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """plan(hardware, **changes of g1_12dof's preset), in an empty folder with an empty cache."""
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def make(hardware: Hardware, **changes: object) -> Plan:
        return make_plan(replace(preset_config("g1_12dof"), **changes), hardware)

    return make


def test_auto_values_are_settled_for_the_hardware(plan: Callable[..., Plan]) -> None:
    here, there = plan(CPU), plan(T4)
    assert (here.config.physics, here.config.num_envs) == ("native", 256)
    assert (there.config.physics, there.config.num_envs) == ("mjx", 8192)
    assert sum(here.memory.values()) == here.sizing.expected_bytes
    assert json.loads(json.dumps(here.to_dict()))["num_envs"] == 256
    rows = dict(here.rows())
    assert "256" in rows["environments"]
    assert f"{256 * algorithm_needs(here.config).unroll:,} samples" in rows["batch"]


def test_remembered_speeds_do_not_decide_the_size(plan: Callable[..., Plan]) -> None:
    """What is learned depends on the kind of machine, not on what was measured on it when."""
    before = plan(CPU)
    for rates in ({64: 900.0, 128: 900.0, 256: 900.0}, {256: 1e4, 512: 1e5, 1024: 1e7}):
        store(program_key(before.config, CPU), rates=rates)
        after = plan(CPU)
        assert after.config == before.config
        assert after.footprint.rates.keys() >= rates.keys(), "they are known"
        shown = {c.num_envs: c.steps_per_s for c in after.sizing.candidates}
        assert shown[256] == rates[256]


@pytest.mark.parametrize("memory_limit", ["", "1GB", "1100MB", "2GB"])
def test_auto_chooses_the_batch_that_suits_its_own_number(
    memory_limit: str, plan: Callable[..., Plan]
) -> None:
    for hardware in (CPU, T4):
        config = plan(hardware, memory_limit=memory_limit, max_envs=4096).config
        assert config.ppo.unroll == unroll_for(int(config.num_envs))
        given = plan(hardware, memory_limit="", max_envs=4096, num_envs=config.num_envs).config
        assert given.ppo == config.ppo


def test_the_plan_shows_how_far_an_update_may_move(plan: Callable[..., Plan]) -> None:
    by_hand = replace(preset_config("g1_12dof").ppo, desired_kl=0.045)
    few, many = (dict(plan(CPU, num_envs=n).rows()) for n in (256, 4096))
    given = dict(plan(CPU, num_envs=4096, ppo=by_hand).rows())
    assert " 0.03 " in few["updates"]
    assert " 0.06 " in many["updates"]
    assert " 0.045 " in given["updates"]
    of_sac = make_plan(preset_config("g1_12dof", algo="sac"), CPU).rows()
    assert "updates" not in dict(of_sac)


def test_temporaries_that_were_measured_at_one_size_grow_with_the_batch(
    plan: Callable[..., Plan],
) -> None:
    """The critic values a whole batch at once; a minibatch is as large for any number."""
    made = plan(CPU, num_envs=256)
    needs = algorithm_needs(made.config)
    each = needs.unroll * needs.value_bytes
    known = {name: made.memory.get(name, 0) for name in ITEMS[1:]} | {"temporaries": 256 * each}
    store(program_key(made.config, CPU), points={256: known})
    larger = plan(CPU, num_envs=1024, ppo=made.config.ppo)
    assert larger.memory["temporaries"] == pytest.approx(1024 * each, rel=0.01)
    assert larger.memory["networks"] == made.memory["networks"]


def test_a_resized_plan_has_the_memory_of_its_size(plan: Callable[..., Plan]) -> None:
    large = plan(CPU, num_envs=256)
    small = large.resized(replace(large.config, num_envs=128))
    assert small.sizing.num_envs == small.config.num_envs == 128
    assert small.memory["rollout"] * 2 == large.memory["rollout"]
    assert small.memory["networks"] == large.memory["networks"]
    assert small.sizing.expected_bytes == sum(small.memory.values())


def test_what_a_process_really_holds_takes_the_place_of_what_was_expected(
    plan: Callable[..., Plan],
) -> None:
    made = plan(CPU)
    more, less = made.with_resident(900_000_000), made.with_resident(700_000_000)
    assert more.sizing.expected_bytes - less.sizing.expected_bytes == 200_000_000
    assert more.memory["rollout"] == made.memory["rollout"]


def test_where_evaluations_are_due_more_is_expected_to_come(plan: Callable[..., Plan]) -> None:
    with_them, without = (
        plan(CPU, eval_every=every).with_resident(700_000_000) for every in (1_000_000, 0)
    )
    assert with_them.sizing.expected_bytes > without.sizing.expected_bytes > 700_000_000


def test_both_halves_are_compiled_at_once_where_a_core_and_memory_are_left(
    plan: Callable[..., Plan],
) -> None:
    ample, limited = plan(CPU), plan(CPU, memory_limit="1GB")
    lone = plan(replace(CPU, cores=1))
    assert ample.compiles_in_parallel
    assert not limited.compiles_in_parallel
    assert not lone.compiles_in_parallel
    assert limited.compiling_bytes == lone.compiling_bytes < GB < ample.compiling_bytes
    assert plan(T4).compiling_bytes == 0


def test_a_replay_buffer_counts_whatever_the_number_of_environments() -> None:
    config = replace(preset_config("g1_12dof", algo="sac"), physics="native")
    needs = algorithm_needs(config)
    none, some = (needs._replace(replay=ReplayNeeds(n, 1, 0, 1)) for n in (0, 3 * GB))
    without, with_replay = (estimate(config, CPU, each) for each in (none, some))
    assert without["replay"].total(1000) == 0
    assert with_replay["replay"].total(10) == with_replay["replay"].total(1000) == 3 * GB
    assert {k: v for k, v in with_replay.items() if v != without[k]}.keys() == {"replay"}


def test_the_limit_is_the_lower_of_what_the_user_gave_and_what_is_free(
    plan: Callable[..., Plan],
) -> None:
    assert plan(CPU).most_bytes == 10 * GB
    assert plan(CPU, memory_limit="3GB").most_bytes == 3 * GB
    assert plan(CPU, memory_limit="30GB").most_bytes == 10 * GB


def test_a_plan_does_not_import_jax(tmp_path: Path) -> None:
    code = (
        "import sys; from jaxrl_hw import make_plan, preset_config;"
        "make_plan(preset_config('g1')).rows();"
        "print(*{'jax', 'mujoco', 'flax'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.split() == []
