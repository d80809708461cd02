"""Algorithms by their names, and what they need before any is made."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import jax
import pytest

from jaxrl_hw import NetConfig, PPOConfig, UserError, preset_config
from jaxrl_hw.algos.ppo_settings import unroll_for
from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.config.resolve import sized
from jaxrl_hw.types import EnvSpec, Sizes

SIZES = Sizes(obs=47, critic=56, action=12, has_symmetry=True)
NET = NetConfig(policy=(64, 32), value=(16,))


def test_an_unknown_algorithm_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError) as refused:
        algorithm_entry("pppo")
    assert '"pppo"' in str(refused.value)
    assert "ppo" in str(refused.value).split('"pppo"')[1]
    # in a process of its own: other tests register more
    code = "from jaxrl_hw.algos.registry import entries; print(*entries())"
    command = [sys.executable, "-c", code]
    there = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert set(there.split()) == {"ppo", "a2c", "dqn", "sac"}


def test_what_an_algorithm_needs_is_known_without_jax() -> None:
    code = (
        "import sys; from jaxrl_hw.algos.registry import algorithm_entry; "
        "from jaxrl_hw.types import Sizes; entry = algorithm_entry('ppo'); "
        "from jaxrl_hw.algos.networks.settings import NetConfig; "
        "entry.needs(entry.settings(), NetConfig(), Sizes(47, 56, 12, True)); "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("averaging", [0.0, 0.1])
def test_needs_are_the_bytes_of_the_learner_that_is_made(averaging: float) -> None:
    entry = algorithm_entry("ppo")
    settings = replace(PPOConfig(), weight_averaging=averaging)
    needs = entry.needs(settings, NET, SIZES)
    learner = jax.eval_shape(
        entry.make(settings, NET, EnvSpec(47, 56, 12), "float32").init, jax.random.key(0)
    )
    made = [
        sum(4 * leaf.size for leaf in jax.tree.leaves(part))
        for part in (learner.params, learner.opt_state, learner.obs_stats)
    ]
    told = (needs.network_bytes, needs.optimizer_bytes, needs.normalizer_bytes)
    # beside them: log_std, counters and rates
    for bytes_made, bytes_told in zip(made, told, strict=True):
        assert bytes_told <= bytes_made <= bytes_told + 300


def test_smaller_minibatches_have_half_the_size() -> None:
    entry, settings = algorithm_entry("ppo"), PPOConfig()
    smaller = entry.smaller_minibatches(settings)
    before, after = (entry.needs(s, NET, SIZES) for s in (settings, smaller))
    assert after.minibatches(24 * 256) == 2 * before.minibatches(24 * 256)
    assert after.update_bytes == before.update_bytes // 2
    assert entry.smaller_minibatches(replace(settings, minibatch_size=1)).minibatch_size == 1


@pytest.mark.parametrize(
    ("samples", "size", "count"),
    [(6144, 1024, 6), (6143, 1024, 6), (700, 1024, 1), (100, 1024, 1), (1, 1, 1), (1600, 1024, 2)],
)
def test_a_pass_takes_as_many_minibatches_as_come_nearest(
    samples: int, size: int, count: int
) -> None:
    needs = algorithm_entry("ppo").needs(replace(PPOConfig(), minibatch_size=size), NET, SIZES)
    assert needs.minibatches(samples) == count


def test_a_trained_policy_starts_gently() -> None:
    entry = algorithm_entry("ppo")
    settings = replace(PPOConfig(), anneal_steps=500)
    alone, together = (entry.warm_started(settings, 200, has) for has in (False, True))
    assert alone.learning_rate == together.learning_rate < settings.learning_rate
    assert alone.anneal_steps == together.anneal_steps == 300
    assert entry.warm_started(settings, 10**6, True).anneal_steps == 1, "all of it is done"
    assert alone.critic_warmup_steps > 0 == together.critic_warmup_steps
    assert entry.warm_started(PPOConfig(), 200, True).anneal_steps == 0


def test_the_unroll_is_24_of_256_environments_and_6_of_4096() -> None:
    assert [unroll_for(n) for n in (256, 4096)] == [24, 6]
    unrolls = [unroll_for(n) for n in range(1, 20_000)]
    assert unrolls == sorted(unrolls, reverse=True)
    assert (unrolls[0], unroll_for(10**6)) == (48, 4), "its bounds"


def test_the_trust_region_grows_with_the_batch_and_what_is_given_stays() -> None:
    def region(num_envs: int, **given: float) -> tuple[float, float]:
        ppo = sized(replace(preset_config("g1_12dof"), ppo=PPOConfig(**given)), num_envs).ppo
        return ppo.desired_kl, ppo.clip

    assert region(64) == region(256) == (0.03, 0.2)
    assert region(4096) == pytest.approx((0.06, 0.2 * math.sqrt(2)), rel=0.01)
    assert region(4096, unroll=24) == pytest.approx((0.12, 0.4), rel=0.01)
    assert region(4096, desired_kl=0.01, clip=0.1) == (0.01, 0.1)
    regions = [region(n) for n in (256, 1024, 4096, 8192, 16_384)]
    assert regions == sorted(regions)


def test_the_batch_grows_with_the_square_root_of_the_number() -> None:
    for n in (64, 100, 256, 300, 1024, 4096, 9000):
        assert n * unroll_for(n) == pytest.approx(24 * 256 * math.sqrt(n / 256), rel=0.1)


def test_an_unroll_that_is_given_stays() -> None:
    entry = algorithm_entry("ppo")
    assert entry.sized(PPOConfig(), 4096).unroll == 6
    once = entry.sized(PPOConfig(), 256)
    assert entry.sized(once, 4096) == once, "the rule applies once"
    assert entry.sized(replace(PPOConfig(), unroll=5), 4096).unroll == 5
