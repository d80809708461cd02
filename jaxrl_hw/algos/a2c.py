"""Advantage actor-critic: one step along the policy gradient of each batch.

Mnih et al. 2016 (arXiv:1602.01783), synchronous, with generalized advantage estimation and running
observation statistics. PPO's collection and networks; no ratio, no clipping, no second pass.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from jaxrl_hw.algos import actor_critic
from jaxrl_hw.algos.a2c_settings import ENTRY, A2CConfig
from jaxrl_hw.algos.actor_critic import Nets, ObsStats, Params, take_in, value_at
from jaxrl_hw.algos.networks import distributions, normalize
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.samples import Samples, samples_of
from jaxrl_hw.types import WHOLE, Algorithm, Batch, EnvSpec, Learner, Metrics, Shards, Sizes


def make(config: A2CConfig, net: NetConfig, spec: EnvSpec, precision: str = "float32") -> Algorithm:
    """A2C for an environment's sizes; see `jaxrl_hw.types.Algorithm` for what is returned.

    Raises:
      UserError: unknown activation.
    """
    nets = actor_critic.nets_of(net, spec, None, precision)
    optimizer = _optimizer(config)

    def init(key: Array) -> Learner:
        params = actor_critic.fresh(nets, net.init_std, spec, key)
        stats = ObsStats(normalize.init(spec.obs_size), normalize.init(spec.critic_size))
        return Learner(params, optimizer.init(params), stats)

    def update(
        learner: Learner, batch: Batch, key: Array, shards: Shards = WHOLE
    ) -> tuple[Learner, Metrics]:
        samples = samples_of(nets, learner, batch, config.gamma, config.gae_lambda, shards)
        loss = partial(_loss, config, nets, samples)
        gradient, metrics = jax.grad(loss, has_aux=True)(learner.params)
        gradient = shards.mean(gradient)
        change, opt_state = optimizer.update(gradient, learner.opt_state, learner.params)
        params = optax.apply_updates(learner.params, change)
        metrics = shards.mean(metrics)
        metrics["grad_norm"] = optax.global_norm(gradient)
        metrics["entropy"] = distributions.entropy(params.log_std)
        metrics["action_std"] = jnp.exp(params.log_std).mean()
        metrics["lr"] = opt_state.hyperparams["learning_rate"]
        return Learner(
            params, opt_state, take_in(learner.obs_stats, batch.next_obs, shards)
        ), metrics

    sizes = Sizes(spec.obs_size, spec.critic_size, spec.action_size, spec.symmetry is not None)
    return actor_critic.made("a2c", ENTRY.needs(config, net, sizes), nets, init, update)


def _optimizer(config: A2CConfig) -> optax.GradientTransformation:
    def clipped(learning_rate: Any) -> optax.GradientTransformation:
        rules = {
            "adam": lambda: optax.adam(learning_rate, eps=1e-5),
            "rmsprop": lambda: optax.rmsprop(learning_rate, decay=0.99, eps=1e-5),
        }
        clip = optax.clip_by_global_norm(config.max_grad_norm)
        return optax.chain(clip, rules[config.optimizer]())

    # the rate is part of the state, so that it is saved and continues with it
    return optax.inject_hyperparams(clipped)(
        learning_rate=jax.device_put(np.float32(config.learning_rate))
    )


def _loss(config: A2CConfig, nets: Nets, samples: Samples, params: Params) -> tuple[Array, Metrics]:
    mean, _ = nets.policy.forward(params.policy, samples.seen)
    log_prob = distributions.log_prob(samples.action, mean, params.log_std)
    policy_loss = -(log_prob * samples.advantage).mean()
    value_loss = ((value_at(nets, params, samples.critic_seen) - samples.target) ** 2).mean()
    total = policy_loss + config.value_coef * value_loss
    total -= config.entropy_coef * distributions.entropy(params.log_std)
    return total, {"loss/policy": policy_loss, "loss/value": value_loss}
