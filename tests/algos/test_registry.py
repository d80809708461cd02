"""Algorithms by their names, and what they need before any is made."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import jax
import pytest

from jaxrl_hw import NetConfig, PPOConfig, UserError
from jaxrl_hw.algos.registry import algorithm_entry, entries
from jaxrl_hw.types import EnvSpec, Sizes

SIZES = Sizes(obs=47, critic=56, action=12, has_symmetry=True)
NET = NetConfig(policy=(64, 32), value=(16,))


def test_an_unknown_algorithm_is_refused_with_those_there_are() -> None:
    with pytest.raises(UserError) as refused:
        algorithm_entry("pppo")
    assert '"pppo"' in str(refused.value)
    assert set(entries()) == {"ppo"}
    assert "ppo" in str(refused.value).split('"pppo"')[1]


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


def test_more_minibatches_halve_their_size() -> None:
    entry, settings = algorithm_entry("ppo"), PPOConfig()
    more = entry.more_minibatches(settings)
    before, after = (entry.needs(s, NET, SIZES) for s in (settings, more))
    assert after.minibatches == 2 * before.minibatches
    assert after.update_bytes_per_env == before.update_bytes_per_env // 2


def test_a_trained_policy_starts_gently() -> None:
    entry = algorithm_entry("ppo")
    settings = replace(PPOConfig(), anneal=500)
    alone, together = (entry.warm_started(settings, 200, has) for has in (False, True))
    assert alone.learning_rate == together.learning_rate < settings.learning_rate
    assert alone.anneal == together.anneal == 300
    assert alone.critic_warmup > 0 == together.critic_warmup
    assert entry.warm_started(PPOConfig(), 200, True).anneal == 0
