"""How the learning rate and the exploration noise change over a run."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.algos.ppo_settings import PPOConfig


def adapt_rate(config: PPOConfig, opt_state: Any, kl: Array) -> Any:
    """The optimizer's state with a rate that follows the KL divergence [].

    As in Schulman et al. 2017, section 4, with the step size in place of a penalty. It changes once
    per iteration, by the last epoch's mean. Within an iteration the divergence starts at 0 whatever
    the rate is, so a rate that followed every minibatch would oscillate.
    """
    hyper = opt_state.hyperparams
    rate = hyper["learning_rate"]
    if config.lr_schedule == "adaptive":
        up = jnp.where(kl < 0.5 * config.desired_kl, 1.2, 1.0)
        factor = jnp.where(kl > 2.0 * config.desired_kl, 1.0 / 1.2, up).astype(rate.dtype)
        rate = jnp.maximum(rate * factor, config.lr_min)
    rate = jnp.minimum(rate, _ceiling(config, opt_state.count))
    if config.critic_warmup:
        rate = _with_warmup(config, opt_state.count, rate)
    rate = rate.astype(hyper["learning_rate"].dtype)
    return opt_state._replace(hyperparams={**hyper, "learning_rate": rate})


def warmup_minibatches(config: PPOConfig) -> int:
    """Minibatches in which only the critic learns."""
    return config.critic_warmup * config.epochs * config.minibatches


def _with_warmup(config: PPOConfig, count: Array, rate: Array) -> Array:
    """The rate [], but the largest during the critic's warm-up, and at most learning_rate after it.

    An untrained critic learns fastest at the largest rate, which would ruin a trained policy.
    """
    over = count - warmup_minibatches(config)
    begins = over < config.epochs * config.minibatches  # not a given count: their number may change
    first = jnp.minimum(rate, config.learning_rate)
    return jnp.where(over < 0, _top(config), jnp.where(begins, first, rate))


def _top(config: PPOConfig) -> float:
    return config.lr_max if config.lr_schedule == "adaptive" else config.learning_rate


def _ceiling(config: PPOConfig, count: Array) -> Array:
    """Upper bound of the rate after so many minibatches."""
    return jnp.asarray(_top(config)) * (1.0 - 0.9 * _annealed(config, count))


def noise_bound(config: PPOConfig, init_std: float, count: Array) -> Array:
    """Upper bound of the policy's log standard deviation after so many minibatches."""
    done = _annealed(config, count)
    falling = (1.0 - done) * jnp.log(init_std) + done * jnp.log(config.end_std)
    return jnp.where(done > 0.0, falling, jnp.inf)


def _annealed(config: PPOConfig, count: Array) -> Array:
    """How far the annealing is after so many minibatches, 0 to 1; 0 without one."""
    if not config.anneal:
        return jnp.zeros(())
    return jnp.minimum(count / (config.epochs * config.minibatches * config.anneal), 1.0)
