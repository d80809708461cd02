"""What an iteration holds at its peak by the compiler's figures, and which program they are of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jaxrl_hw import Config, NetConfig, preset_config
from jaxrl_hw.hardware.detect import detect
from jaxrl_hw.hardware.measurement_cache import load, store
from jaxrl_hw.planning.memory_model import program_key
from jaxrl_hw.training.measure import ProgramMemory, items_of, measure
from jaxrl_hw.training.run import environments
from jaxrl_hw.training.train_step import compile_train_step, state_form

MB = 1_000_000


@pytest.mark.parametrize(("collecting", "updating"), [(5, 9), (90, 5)])
def test_the_temporaries_of_one_half_are_gone_when_the_other_runs(
    collecting: int, updating: int
) -> None:
    config = replace(preset_config("cartpole"), physics="native", num_envs=16)
    env, algorithm = environments(config)
    halves = (ProgramMemory(size * MB, 0) for size in (collecting, updating))
    items = items_of(env, state_form(env, algorithm), (), *halves)
    assert items["temporaries"] == max(collecting, updating) * MB


@pytest.mark.slow
def test_a_build_that_finds_another_program_discards_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAXRL_HW_CACHE", str(tmp_path))
    base = preset_config("cartpole")
    net = NetConfig(policy=(8,), value=(8,))
    ppo = replace(base.ppo, unroll=4, epochs=1, minibatch_size=4096)
    config, hardware = replace(base, physics="native", net=net, ppo=ppo), detect()
    key = program_key(config, hardware)
    first = measure(config, hardware)
    (number,) = first.lowered
    assert number in first.points
    store(key, rates={number: 900.0})
    assert measure(config, hardware) == first._replace(rates={number: 900.0}), "the same program"
    store(key, rates={16: 700.0}, lowered={number: "of another program"})
    assert load(key).points == {}
    assert measure(config, hardware) == first


@pytest.mark.slow
def test_a_reward_weight_does_not_make_another_program_and_a_network_does() -> None:
    base = preset_config("g1_12dof")
    net = NetConfig(policy=(8,), value=(8,))
    ppo = replace(base.ppo, unroll=4, epochs=1, minibatch_size=4096)
    config = replace(base, physics="native", num_envs=16, net=net, ppo=ppo)

    def lowered(config: Config) -> str:
        env, algorithm = environments(config)
        form = state_form(env, algorithm)
        options = {"xla_backend_optimization_level": 0}
        return compile_train_step(env, algorithm, form, options).lowered

    reward = replace(config.joystick.reward, fall=-7.0)
    weights = replace(config, joystick=replace(config.joystick, reward=reward))
    assert lowered(weights) == lowered(config)
    assert lowered(replace(config, net=replace(net, policy=(16,)))) != lowered(config)
