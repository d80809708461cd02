"""What a policy gradient learns from: a batch with advantages, as its networks take it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.algos.actor_critic import (
    Nets,
    ObsStats,
    critic_inputs,
    masked,
    value_at,
    value_of,
)
from jaxrl_hw.algos.networks import distributions, normalize
from jaxrl_hw.algos.networks.policy_net import Inputs, flat
from jaxrl_hw.algos.returns import following, gae
from jaxrl_hw.types import WHOLE, Batch, Learner, Shards, Symmetry


class Samples(NamedTuple):
    """The batch as the update sees it: time and environments in one axis [B, ...], or [N, T, ...]
    where the policy needs whole sequences. All observations are normalized, once for all passes."""

    seen: Inputs  # by the policy
    critic_seen: Inputs
    unseen: Array  # [B, E] entries that only the critic sees
    action: Array
    log_prob: Array
    mean: Array
    value: Array
    advantage: Array
    target: Array
    mirrored: Inputs = ()  # seen by the robot's mirror image, where they are asked for


def samples_of(
    nets: Nets,
    learner: Learner,
    batch: Batch,
    gamma: float,
    gae_lambda: float,
    shards: Shards = WHOLE,
    unseen: int = 0,
) -> Samples:
    """Advantages and value targets, then one flat batch as the policy saw it.

    shards: of which the batch is one; advantages are normalized over all of them.
    unseen: E, entries at the end of the critic's observation that are to be estimated.
    """
    params, stats = learner.params, learner.obs_stats
    lay_out = _layout(nets)
    critic_seen = critic_inputs(nets, stats, batch.obs.critic)
    value = value_at(nets, params, critic_seen)
    next_value = following(
        partial(value_of, nets, params, stats), value, batch.next_obs.critic, batch.truncated
    )
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
    return Samples(
        policy_inputs(nets, stats, batch),
        jax.tree.map(lay_out, critic_seen),
        lay_out(_unseen(stats, batch.obs.critic, unseen)),
        lay_out(batch.action),
        lay_out(batch.extras["log_prob"]),
        lay_out(batch.extras["mean"]),
        lay_out(value),
        lay_out(advantage),
        lay_out(target),
    )


def policy_inputs(
    nets: Nets, stats: ObsStats, batch: Batch, symmetry: Symmetry | None = None
) -> Inputs:
    """What the policy saw; with a symmetry, what the robot's mirror image would have seen."""
    obs, ended = masked(batch.phase_mask, batch.obs.policy), batch.terminated | batch.truncated
    memory = batch.memory
    if symmetry is not None:
        obs, memory = symmetry.policy(obs), nets.policy.reflected(memory)
    return nets.policy.inputs(stats.policy, memory, obs, ended)


def with_mirrored(
    nets: Nets, learner: Learner, batch: Batch, samples: Samples, symmetry: Symmetry
) -> Samples:
    """The samples of a batch, and what the robot's mirror image would have seen and done.

    The probability of a mirrored action is that of the policy at the mirrored observation, so that
    its ratio starts at 1 as well. With the original's probability, a policy that is not symmetric
    yet would have its mirrored samples clipped away, and a large KL divergence.
    """
    params, stats, lay_out = learner.params, learner.obs_stats, _layout(nets)
    seen = policy_inputs(nets, stats, batch, symmetry)
    mean, _ = nets.policy.forward(params.policy, seen)
    action, critic_obs = symmetry.action(samples.action), symmetry.critic(batch.obs.critic)
    mirrored = samples._replace(
        seen=seen,
        critic_seen=jax.tree.map(lay_out, critic_inputs(nets, stats, critic_obs)),
        unseen=lay_out(_unseen(stats, critic_obs, samples.unseen.shape[-1])),
        action=action,
        mean=mean,
        log_prob=distributions.log_prob(action, mean, params.log_std),
    )
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), samples, mirrored)


def _layout(nets: Nets) -> Callable[[Array], Array]:
    return partial(jnp.swapaxes, axis1=0, axis2=1) if nets.policy.whole else flat


def _unseen(stats: ObsStats, critic_obs: Array, entries: int) -> Array:
    """The last entries of [..., C], normalized."""
    x = normalize.normalize(stats.critic, critic_obs)
    return x[..., x.shape[-1] - entries :]
