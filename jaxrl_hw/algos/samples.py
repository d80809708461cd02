"""What a policy gradient learns from: a batch with advantages, as its networks take it."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.algos.actor_critic import Nets, masked, value_of
from jaxrl_hw.algos.networks import distributions, normalize
from jaxrl_hw.algos.networks.policy_net import Inputs, flat
from jaxrl_hw.algos.returns import gae
from jaxrl_hw.types import WHOLE, Batch, Learner, Shards, Symmetry


class Samples(NamedTuple):
    """The batch as the update sees it: time and environments in one axis [B, ...], or [N, T, ...]
    where the policy needs whole sequences."""

    seen: Inputs  # of the policy
    critic_obs: Array
    action: Array
    log_prob: Array
    mean: Array
    value: Array
    advantage: Array
    target: Array


def samples_of(
    nets: Nets,
    learner: Learner,
    batch: Batch,
    gamma: float,
    gae_lambda: float,
    shards: Shards = WHOLE,
) -> Samples:
    """Advantages and value targets, then one flat batch as the policy saw it.

    shards: of which the batch is one; advantages are normalized over all of them.
    """
    value = value_of(nets, learner.params, learner.obs_stats, batch.obs.critic)
    next_value = value_of(nets, learner.params, learner.obs_stats, batch.next_obs.critic)
    advantage = gae(
        batch.reward,
        value,
        next_value,
        batch.terminated,
        batch.truncated,
        gamma,
        gae_lambda,
    )
    target = advantage + value
    mean, var = normalize.moments(advantage, shards=shards)
    advantage = (advantage - mean) / (jnp.sqrt(var) + 1e-8)
    lay_out = partial(jnp.swapaxes, axis1=0, axis2=1) if nets.policy.whole else flat
    obs, ended = masked(batch.phase_mask, batch.obs.policy), batch.terminated | batch.truncated
    return Samples(
        nets.policy.inputs(batch.memory, obs, ended),
        lay_out(batch.obs.critic),
        lay_out(batch.action),
        lay_out(batch.extras["log_prob"]),
        lay_out(batch.extras["mean"]),
        lay_out(value),
        lay_out(advantage),
        lay_out(target),
    )


def with_mirrored(nets: Nets, learner: Learner, samples: Samples, symmetry: Symmetry) -> Samples:
    """The samples, and what the robot's mirror image would have seen and done.

    The probability of a mirrored action is that of the policy at the mirrored observation, so that
    its ratio starts at 1 as well. With the original's probability, a policy that is not symmetric
    yet would have its mirrored samples clipped away, and a large KL divergence.
    """
    params, seen = learner.params, nets.policy.mirrored(samples.seen)
    mean, _ = nets.policy.forward(params.policy, learner.obs_stats.policy, seen)
    action = symmetry.action(samples.action)
    mirrored = samples._replace(
        seen=seen,
        critic_obs=symmetry.critic(samples.critic_obs),
        action=action,
        mean=mean,
        log_prob=distributions.log_prob(action, mean, params.log_std),
    )
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), samples, mirrored)
