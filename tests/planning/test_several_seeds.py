"""The plan of several seeds counts the memory and the disk of all of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import Plan, make_plan, preset_config
from jaxrl_hw.cli.plan import print_plan
from jaxrl_hw.config.resolve import algorithm_needs
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.training.measure import measure

GB = 10**9
CPU = Hardware("cpu", "EPYC", 1, 2, 16 * GB, 10 * GB, "psutil available")
T4 = Hardware("gpu", "Tesla T4", 1, 2, 16 * GB, 15 * GB, "nvml")
OWN = ("networks", "optimizer", "normalizer", "environments", "rollout", "temporaries")


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plan]:
    """plan(hardware, algorithm, **changes of cartpole's preset), with an empty cache."""
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def make(hardware: Hardware, algo: str = "ppo", robot: str = "cartpole", **changes) -> Plan:
        config = preset_config(robot, algo=algo)
        if "buffer" in changes:
            sac = replace(config.sac, buffer_size=changes.pop("buffer"))
            config = replace(config, sac=sac)
        return make_plan(replace(config, **changes), hardware)

    return make


def test_each_of_several_seeds_takes_what_one_takes(plan) -> None:
    one, four = (plan(CPU, num_envs=512, physics="mjx", seeds=n) for n in (1, 4))
    for name in OWN:
        assert four.memory[name] == 4 * one.memory[name]
        assert four.of_each_seed[name] == four.memory[name] // 4
    assert one.of_each_seed == {}
    told = json.loads(json.dumps(four.to_dict()))
    assert told["predicted_bytes_of_each_seed"]["rollout"] * 4 == told["predicted_bytes"]["rollout"]
    assert four.storage.total_bytes == 4 * one.storage.total_bytes


def test_the_compiler_counts_all_seeds_too(plan) -> None:
    one, three = (
        measure(plan(CPU, num_envs=64, physics="native", seeds=n).config, CPU).points
        for n in (1, 3)
    )
    assert one.keys() == three.keys() != set()
    for number, items in one.items():
        for name in OWN[:4]:
            assert three[number][name] == 3 * items[name] > 0
        assert three[number]["physics"] > items["physics"]
    again = plan(CPU, num_envs=1024, physics="native", seeds=3)
    assert again.memory["networks"] == pytest.approx(3 * one[1024]["networks"], rel=0.01)


def test_auto_environments_leave_room_for_all_seeds(plan) -> None:
    small = replace(T4, memory_free=3 * GB)
    one, six = (plan(small, robot="g1_12dof", physics="mjx", seeds=n) for n in (1, 6))
    assert six.config.num_envs < one.config.num_envs
    for found in (one, six):
        assert found.sizing.expected_bytes <= found.sizing.budget_bytes


@pytest.mark.parametrize("hardware", [CPU, T4])
@pytest.mark.parametrize("saved", ["yes", "no"])
def test_an_auto_replay_leaves_room_for_those_of_all_seeds(plan, hardware, saved) -> None:
    changes = {"save_replay": saved, "timesteps": 10**9, "memory_limit": "2GB", "num_envs": 32}
    one, four = (plan(hardware, "sac", buffer="auto", seeds=n, **changes) for n in (1, 4))
    sizes = [found.config.sac.buffer_size for found in (one, four)]
    assert sizes[1] < sizes[0] / 2
    for found in (one, four):
        assert found.sizing.expected_bytes <= found.sizing.budget_bytes
    # all that is left is taken
    each = algorithm_needs(four.config).replay_bytes
    assert four.sizing.expected_bytes > 0.9 * four.sizing.budget_bytes
    assert four.memory["replay"] == 4 * each
    copies = {"yes": 7 if hardware is CPU else 4, "no": 0}[saved]
    assert four.memory.get("saving", 0) == copies * each


def test_a_replay_that_fits_once_is_refused_for_more_seeds(plan) -> None:
    changes = {"buffer": 12_000_000, "save_replay": "no", "memory_limit": "2GB", "num_envs": 32}
    changes["timesteps"] = 10**9
    plan(CPU, "sac", seeds=1, **changes)
    with pytest.raises(UserError) as refused:
        plan(CPU, "sac", seeds=4, **changes)
    words = str(refused.value).replace(",", "").split()
    fitting = int(words[words.index("most") + 1])
    assert plan(CPU, "sac", seeds=4, **{**changes, "buffer": fitting})


def test_no_seed_shrinks(plan) -> None:
    assert plan(CPU, seeds=1).to_dict()["after_out_of_memory"]
    together = plan(CPU, seeds=4, on_oom="shrink")
    assert together.to_dict()["after_out_of_memory"] == []
    assert together.config.on_oom == "fail"
    assert "1 environments" not in dict(together.rows())["out of memory"]


def test_the_command_lists_what_each_seed_takes(plan, capsys) -> None:
    plan(CPU)  # in an empty folder, with an empty cache
    words = ["--robot", "g1_12dof", "--gpu", "t4", "--num-envs", "1024"]
    shown = []
    for seeds in ("1", "4"):
        assert print_plan([*words, "--seeds", seeds]) == 0
        shown.append(capsys.readouterr().out)
    assert ["each seed" in text for text in shown] == [False, True]
