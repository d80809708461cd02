"""What PPO's update learns from: a batch with advantages, as its networks take it."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.algos.networks import distributions, normalize
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.policy_net import Inputs, PolicyNet, flat
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.algos.returns import gae
from jaxrl_hw.types import WHOLE, Batch, Learner, PhaseMask, Shards, Symmetry


class Params(NamedTuple):
    """What the gradient moves."""

    policy: Any
    value: Any
    log_std: Array  # [A]
    estimator: Any = ()  # an `estimation.Head`; () without one


class ObsStats(NamedTuple):
    """Of both networks' observations."""

    policy: normalize.RunningStats
    critic: normalize.RunningStats


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


class Nets(NamedTuple):
    """The networks."""

    policy: PolicyNet
    value: MLP


def masked(phase_mask: PhaseMask | None, policy_obs: Array) -> Array:
    """Observations [..., O] as the policy sees them."""
    return policy_obs if phase_mask is None else phase_mask(policy_obs)


def value_of(nets: Nets, params: Params, stats: ObsStats, critic_obs: Array) -> Array:
    """[..., C] -> [...]."""
    x = normalize.normalize(stats.critic, critic_obs)
    return jnp.asarray(nets.value.apply(params.value, x))[..., 0]


def samples_of(
    config: PPOConfig,
    nets: Nets,
    learner: Learner,
    batch: Batch,
    symmetry: Symmetry | None,
    shards: Shards = WHOLE,
) -> Samples:
    """Advantages and value targets, then one flat batch as the policy saw it, perhaps mirrored.

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
        config.gamma,
        config.gae_lambda,
    )
    target = advantage + value
    mean, var = normalize.moments(advantage, shards=shards)
    advantage = (advantage - mean) / (jnp.sqrt(var) + 1e-8)
    lay_out = partial(jnp.swapaxes, axis1=0, axis2=1) if nets.policy.whole else flat
    obs, ended = masked(batch.phase_mask, batch.obs.policy), batch.terminated | batch.truncated
    samples = Samples(
        nets.policy.inputs(batch.memory, obs, ended),
        lay_out(batch.obs.critic),
        lay_out(batch.action),
        lay_out(batch.extras["log_prob"]),
        lay_out(batch.extras["mean"]),
        lay_out(value),
        lay_out(advantage),
        lay_out(target),
    )
    if symmetry is not None and config.symmetry == "augment":
        mirrored = _mirrored(nets, learner, samples, symmetry)
        samples = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), samples, mirrored)
    return samples


def _mirrored(nets: Nets, learner: Learner, samples: Samples, symmetry: Symmetry) -> Samples:
    """What the robot's mirror image would have seen and done.

    The probability of a mirrored action is that of the policy at the mirrored observation, so that
    its ratio starts at 1 as well. With the original's probability, a policy that is not symmetric
    yet would have its mirrored samples clipped away, and a large KL divergence.
    """
    params, seen = learner.params, nets.policy.mirrored(samples.seen)
    mean, _ = nets.policy.forward(params.policy, learner.obs_stats.policy, seen)
    action = symmetry.action(samples.action)
    return samples._replace(
        seen=seen,
        critic_obs=symmetry.critic(samples.critic_obs),
        action=action,
        mean=mean,
        log_prob=distributions.log_prob(action, mean, params.log_std),
    )
