"""What is halved, and in which order, where memory runs out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxrl_hw import Config, preset_config
from jaxrl_hw.planning.ladder import ladder_text, rungs, size_of


def config(num_envs: int, minibatch: int, unroll: int) -> Config:
    base = preset_config("cartpole")
    ppo = replace(base.ppo, minibatch_size=minibatch, unroll=unroll)
    return replace(base, num_envs=num_envs, ppo=ppo)


def test_environments_come_first_then_minibatches_then_the_unroll() -> None:
    found = [tuple(size.values()) for size in rungs(config(4, 32, 24))]
    # one environment's 24 steps are two minibatches of 16 samples, then four, and so on
    assert found[:2] == [(2, 32, 24), (1, 24, 24)]
    assert found[2:6] == [(1, 16, 24), (1, 8, 24), (1, 4, 24), (1, 2, 24)]
    assert found[6:] == [(1, 1, 24), (1, 1, 12), (1, 1, 6), (1, 1, 3), (1, 1, 1)]


def test_the_ladder_is_told_by_its_ends() -> None:
    text = ladder_text(config(4096, 1024, 6))
    for size in ("2,048", "1 environments", "3, 1 steps"):
        assert size in text
    assert "--on-oom fail" in ladder_text(replace(config(4096, 1024, 6), on_oom="fail"))


def test_the_ladder_is_told_in_the_order_in_which_sizes_are_halved() -> None:
    def told(algo: str, *words: str) -> list[int]:
        text = ladder_text(replace(preset_config("cartpole", algo=algo), num_envs=16))
        return [text.find(word) for word in words]

    sac = told("sac", "transitions", "samples", "environments")
    assert sac == sorted(sac)
    assert sac[0] > 0
    environments, steps, samples = told("a2c", "environments", "steps", "samples")
    assert 0 < environments < steps
    assert samples == -1  # its minibatch is the whole batch


@pytest.mark.parametrize("devices", [2, 4])
def test_environments_stay_divisible_by_the_devices(devices: int) -> None:
    several = replace(config(16, 1024, 1), devices=devices)
    numbers = [size["num_envs"] for size in rungs(several)]
    assert size_of(several)["num_envs"] == 16 > numbers[-1]
    assert all(number % devices == 0 for number in numbers)
