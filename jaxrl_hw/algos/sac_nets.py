"""SAC's networks: a Gaussian policy squashed by tanh, twin critics, and how they start."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrl_hw.algos.motion_prior import clone_motion
from jaxrl_hw.algos.networks import distributions
from jaxrl_hw.algos.networks.critic import Critics
from jaxrl_hw.algos.networks.policy_net import PolicyNet, with_last_bias
from jaxrl_hw.algos.sac_settings import SACConfig
from jaxrl_hw.types import EnvSpec, Learner, Motion

LOG_STD = (-5.0, 2.0)
"""Bounds of the logarithm of the standard deviation, before the squashing."""


class Params(NamedTuple):
    policy: Any  # its outputs are mean and log_std
    critics: Any  # leaves [2, ...]
    target: Any  # as critics
    log_alpha: Array  # []
    prior: Any = ()  # the policy as it was fitted to a motion; () where it is not held to one


class Nets(NamedTuple):
    """The networks, and how far actions go [A]."""

    policy: PolicyNet
    critics: Critics
    limit: Array

    def gaussian(self, out: Array) -> tuple[Array, Array]:
        """Outputs [..., 2 A] -> mean and log_std [..., A] before the squashing."""
        mean, log_std = jnp.split(out, 2, axis=-1)
        return mean, jnp.clip(log_std, *LOG_STD)

    def mean(self, out: Array) -> Array:
        """Outputs [..., 2 A] -> actions [..., A] without noise."""
        return self.limit * jnp.tanh(self.gaussian(out)[0])

    def draw(self, out: Array, key: Array) -> tuple[Array, Array]:
        """Actions [..., A] and their log densities [...]. Consumes key."""
        mean, log_std = self.gaussian(out)
        x = distributions.sample(key, mean, log_std)
        density = distributions.log_prob(x, mean, log_std)
        return self.limit * jnp.tanh(x), density - log_stretch(x, self.limit).sum(axis=-1)


def log_stretch(x: Array, limit: Array) -> Array:
    """log d(limit tanh x)/dx, exact where tanh is at its ends."""
    return jnp.log(limit) + 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))


def fresh(config: SACConfig, nets: Nets, init_std: float, spec: EnvSpec, key: Array) -> Params:
    """Networks that know nothing yet, and noise of init_std in units of action. Consumes key but
    for its third part, which is the motion's."""
    key_policy, key_critics, _ = jax.random.split(key, 3)
    size = spec.critic_size + spec.action_size
    # one by one: a batch of QR decompositions holds a thread of XLA's until others have done its
    # parts, and several batches at once hold them all for ever
    critics = lax.map(
        lambda k: nets.critics.mlp.init(k, jnp.zeros(size)), jax.random.split(key_critics, 2)
    )
    log_std = jnp.clip(jnp.log(init_std / nets.limit), *LOG_STD)
    policy = with_last_bias(
        nets.policy.init(key_policy), jnp.concatenate([jnp.zeros(spec.action_size), log_std])
    )
    target = jax.tree.map(jnp.copy, critics)
    holds = spec.has_motion and config.motion_prior and config.prior_coef > 0.0
    prior = jax.tree.map(jnp.copy, policy) if holds else ()
    return Params(policy, critics, target, jnp.log(jnp.float32(config.alpha_start)), prior)


def cloned(nets: Nets, learner: Learner, motion: Motion, key: Array) -> Learner:
    """The learner with its policy's mean fitted to a motion. Consumes what `fresh` leaves of
    key."""
    _, _, key_motion = jax.random.split(key, 3)
    params = learner.params
    policy = clone_motion(nets.policy, params.policy, motion, key_motion, nets.mean)
    prior = jax.tree.map(jnp.copy, policy) if params.prior else ()
    return learner._replace(params=params._replace(policy=policy, prior=prior))
