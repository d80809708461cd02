"""The cross-entropy method: an algorithm of your own, in one file, for every command.

    python -m jaxrl_hw.train --robot cartpole --algo examples.own_algorithm --num-envs 64

Every environment acts with weights of its own, drawn around a mean. The best ones make the next
mean and spread (Mannor, Rubinstein and Gat 2003). There is no gradient, and no replay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxrl_hw import Algorithm, AlgorithmEntry, Learner, Needs, PolicyParts, setting
from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.policy_net import make_policy_net
from jaxrl_hw.algos.networks.settings import policy_size
from jaxrl_hw.types import WHOLE, Sizes


@dataclass(frozen=True)
class CEMConfig:
    unroll: int = setting(500, at_least=1)
    """Control steps after which the weights are compared."""
    hidden: int = setting(8, at_least=1)
    """Width of the policy's hidden layer."""
    elite: float = setting(0.2, above=0.0, at_most=1.0)
    """Share of the environments that make the next mean."""
    spread: float = setting(0.5, above=0.0)
    """Standard deviation of the weights at the start."""


def needs(cem: CEMConfig, net: Any, sizes: Any) -> Needs:
    weights = policy_size(
        replace(net, policy=(cem.hidden,)), sizes.obs, sizes.action, False
    ).weights
    return Needs(
        unroll=cem.unroll,
        epochs=1,
        minibatch_size=1 << 40,
        network_bytes=8 * weights,
        normalizer_bytes=8 * sizes.obs,
        sample_bytes=4 * (2 * (sizes.obs + sizes.critic) + sizes.action + 4),
        networks=(("policy", (cem.hidden,)),),
    )


def make(cem: CEMConfig, net: Any, spec: Any, precision: str) -> Algorithm:
    net = replace(net, policy=(cem.hidden,), memory="none")
    policy = make_policy_net(net, spec.obs_size, spec.action_size, None, precision)
    first, to_weights = ravel_pytree(policy.init(jax.random.key(0)))

    def init(key):
        # the key that the next weights are drawn with is a part of the state
        params = {"mean": jnp.zeros_like(first), "std": jnp.full_like(first, cem.spread)}
        return Learner(params, key, normalize.init(spec.obs_size))

    def drawn(learner, count):
        """Weights [count, W], the same throughout an iteration."""
        noise = jax.random.normal(learner.opt_state, (count, first.size))
        return learner.params["mean"] + learner.params["std"] * noise

    def step(stats, flat, obs):
        return policy.forward(to_weights(flat), policy.prepared(stats, obs))[0]

    def act(learner, obs, key, phase_mask=None, memory=()):
        each = jax.vmap(partial(step, learner.obs_stats))
        return each(drawn(learner, len(obs.policy)), obs.policy), {}, memory

    def update(learner, batch, key, shards=WHOLE):
        score = batch.reward.mean(axis=0)
        best = jnp.argsort(-score)[: max(2, round(cem.elite * len(score)))]
        elite = drawn(learner, len(score))[best]
        params = {"mean": elite.mean(axis=0), "std": elite.std(axis=0) + 0.05}  # it must not vanish
        stats = normalize.update(learner.obs_stats, batch.next_obs.policy)
        metrics = {"elite_reward": score[best].mean(), "weight_std": params["std"].mean()}
        return Learner(params, key, stats), metrics

    def deterministic(learner, policy_obs, phase_mask=None, memory=()):
        return step(learner.obs_stats, learner.params["mean"], policy_obs), memory

    def parts(learner):
        weights = to_weights(learner.params["mean"])
        return PolicyParts(weights, learner.obs_stats, jnp.zeros(spec.action_size))

    sizes = Sizes(spec.obs_size, spec.critic_size, spec.action_size, False)
    needed = needs(cem, net, sizes)
    return Algorithm("cem", needed, init, act, update, deterministic, parts=parts)


ALGORITHM = AlgorithmEntry(
    "cem", CEMConfig, needs, maker=make, ignores=("net.policy", "net.value", "net.init_std")
)
