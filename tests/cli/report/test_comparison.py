"""Runs of the same settings are seeds of one group; only what is comparable is compared."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from jaxrl_hw import preset_config
from jaxrl_hw.cli.report.comparison import compare
from jaxrl_hw.cli.report.run_record import read_record
from jaxrl_hw.config import validation

pytestmark = pytest.mark.slow  # the fixture trains


def compared(*folders):
    return compare([read_record(folder) for folder in folders])


def test_seeds_are_one_group_and_its_figures_their_mean(copy_of):
    found = compared(copy_of("a", 0, [1.0, 3.0]), copy_of("b", 1, [3.0, 7.0]))
    (group,) = found.groups
    assert (group["runs"], group["seeds"]) == (["a", "b"], [0, 1])
    final = group["measures"]["final_return"]
    # two values: half of the interval is t(0.975, 1) sd / sqrt(2) = 12.706 * 2
    assert (final["n"], final["mean"]) == (2, 5.0)
    assert final["high"] - final["mean"] == pytest.approx(12.706 * 2, rel=1e-4)
    assert group["measures"]["mean_return"]["mean"] == 3.5
    ((curve,),) = found.curves
    np.testing.assert_allclose(curve.mean[[0, -1]], [2.0, 5.0])
    assert found.tests == []


def test_what_a_continued_run_may_change_makes_no_other_group(copy_of):
    found = compared(copy_of("a", 0, [1.0]), copy_of("b", 1, [1.0]), copy_of("c", 2, [1.0]))
    assert len(found.groups) == 1
    other = compared(copy_of("d", 0, [1.0]), copy_of("e", 0, [1.0], ppo__gamma=0.5))
    assert [group["label"] for group in other.groups] == ["cartpole", "cartpole, ppo.gamma=0.5"]


def test_a_label_leaves_out_settings_of_other_algorithms(reported, copy_of):
    def other(name, config):
        folder = copy_of(name, 0, [1.0])
        record = json.loads((folder / "config.json").read_text())
        config = replace(config, run_dir="", cartpole=task, net=net, num_envs=envs)
        record["config"] = validation.to_dict(config)
        (folder / "config.json").write_text(json.dumps(record))
        return folder

    ppo = read_record(reported.run).config
    task, net, envs = ppo.cartpole, ppo.net, ppo.num_envs
    sac = replace(preset_config("cartpole", algo="sac"), physics=ppo.physics)
    small = replace(sac, sac=replace(sac.sac, batch_size=16))
    found = compared(copy_of("a", 0, [1.0]), other("b", sac), other("c", small))
    first, second, third = (group["label"] for group in found.groups)
    assert (first, "algo=sac" in second) == ("cartpole", True)
    assert "ppo." not in second
    assert "sac." not in second
    assert third == f"{second}, sac.batch_size=16"


def test_groups_that_differ_are_told_from_groups_that_do_not(copy_of):
    low = [copy_of(f"low{i}", i, [1.0 + 0.1 * i]) for i in range(4)]
    same = [copy_of(f"same{i}", i, [1.05 + 0.1 * i], ppo__gamma=0.9) for i in range(4)]
    high = [copy_of(f"high{i}", i, [9.0 + 0.1 * i], ppo__gamma=0.5) for i in range(4)]
    found = compared(*low, *same, *high)
    tests = {
        (test["a"], test["b"]): test for test in found.tests if test["measure"] == "final_return"
    }
    names = [group["label"] for group in found.groups]
    assert {pair for pair, test in tests.items() if test["significant"]} == {
        (names[0], names[2]),
        (names[1], names[2]),
    }
    assert tests[names[0], names[2]]["difference"] == pytest.approx(8.0)
    assert all(test["test"] and test["p_holm"] >= test["p"] for test in tests.values())
    # of 1.0, 1.1, 1.2, 1.3 the middle two
    assert found.groups[0]["measures"]["final_return"]["iqm"] == pytest.approx(1.15)


def test_one_run_each_is_a_difference_without_a_test(copy_of):
    found = compared(copy_of("a", 0, [1.0]), copy_of("b", 0, [4.0], ppo__gamma=0.5))
    (test,) = [test for test in found.tests if test["measure"] == "final_return"]
    assert (test["difference"], test["p"], test["significant"]) == (3.0, None, None)
    assert test["why"]


def test_returns_count_up_to_the_env_steps_that_all_have_reached(copy_of):
    short = copy_of("short", 0, [1.0, 2.0])
    long = copy_of("long", 0, [1.0, 3.0, 50.0, 90.0], ppo__gamma=0.5)
    found = compared(short, long)
    assert [group["env_steps"] for group in found.groups] == [200, 200]
    assert found.groups[1]["measures"]["final_return"]["mean"] == 3.0


def test_other_rewards_are_not_compared(copy_of):
    found = compared(copy_of("a", 0, [1.0]), copy_of("b", 0, [4.0], cartpole__episode_s=5.0))
    assert {test["measure"] for test in found.tests} == {"env_steps_per_s", "memory_mb"}
    assert any("cartpole.episode_s" in line for line in found.not_compared)
    assert len(found.curves) == 2


def test_a_run_without_rows_is_named_and_left_out(copy_of):
    found = compared(copy_of("a", 0, [1.0]), copy_of("b", 0, []))
    assert [group["runs"] for group in found.groups] == [["a"]]
    assert any(line.startswith("b:") for line in found.not_compared)
