"""Proximal policy optimization.

Schulman et al. 2017 (arXiv:1707.06347), with generalized advantage estimation, running observation
statistics, and a learning rate that follows the KL divergence. A robot whose left and right are
alike has networks that are symmetric by construction (`networks.equivariant`), or a mirror loss
(Yu, Turk and Liu 2018, arXiv:1801.08093).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from jaxrl_hw.algos import actor_critic
from jaxrl_hw.algos.actor_critic import Nets, ObsStats, Params, take_in, value_at
from jaxrl_hw.algos.estimation import estimation_loss, fresh_head
from jaxrl_hw.algos.networks import distributions, normalize
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.optimizer import adapt_rate, clock_of, make_optimizer, noise_bound
from jaxrl_hw.algos.ppo_settings import (
    ENTRY,
    SYMMETRIES,
    PPOConfig,
    symmetry_of,
    with_trust_region,
)
from jaxrl_hw.algos.samples import Samples, policy_inputs, samples_of, with_mirrored
from jaxrl_hw.errors import unknown
from jaxrl_hw.types import (
    WHOLE,
    Algorithm,
    Batch,
    EnvSpec,
    Learner,
    Metrics,
    Shards,
    Sizes,
    Symmetry,
)


def make(config: PPOConfig, net: NetConfig, spec: EnvSpec, precision: str = "float32") -> Algorithm:
    """PPO for an environment's sizes; see `jaxrl_hw.types.Algorithm` for what is returned.

    Without a symmetry the mirror loss and the augmentation are off.

    Raises:
      UserError: unknown activation, schedule or symmetry mode.
    """
    if config.lr_schedule not in ("adaptive", "fixed"):
        raise unknown("lr schedule", config.lr_schedule, ("adaptive", "fixed"))
    if config.symmetry not in SYMMETRIES:
        raise unknown("symmetry mode", config.symmetry, SYMMETRIES)
    config = with_trust_region(config, 0)  # where nothing has sized it, that of a usual batch
    config = replace(config, symmetry=symmetry_of(config, net, spec.symmetry is not None))
    symmetry = None if config.symmetry == "none" else spec.symmetry
    built_in = symmetry if config.symmetry == "network" else None
    nets = actor_critic.nets_of(net, spec, symmetry, precision, built_in is not None)
    optimizer = make_optimizer(config)
    sizes = Sizes(spec.obs_size, spec.critic_size, spec.action_size, spec.symmetry is not None)
    needs = ENTRY.needs(config, net, sizes)

    def init(key: Array) -> Learner:
        params = actor_critic.fresh(nets, net.init_std, spec, key)
        if config.estimation_coef and spec.unseen:
            params = params._replace(estimator=fresh_head(net.policy[-1], spec))
        stats = ObsStats(normalize.init(spec.obs_size), normalize.init(spec.critic_size))
        return Learner(params, optimizer.init(params), stats)

    def update(
        learner: Learner, batch: Batch, key: Array, shards: Shards = WHOLE
    ) -> tuple[Learner, Metrics]:
        samples = _samples(config, nets, learner, batch, symmetry, shards)
        clock = clock_of(config, batch, shards)
        loss = _make_loss(config, nets, symmetry, learner.params.log_std)
        minimize = partial(optimizer.update, frozen=clock.is_warming)
        counts = needs.epochs, needs.minibatches(shards.number * batch.reward.size)
        params, opt_state, losses = _optimize(counts, minimize, loss, learner, samples, key, shards)
        opt_state = adapt_rate(config, opt_state, clock, losses["kl"][-1].mean())
        bound = noise_bound(config, net.init_std, clock)
        log_std = jnp.minimum(params.log_std, bound)
        if built_in is not None:
            log_std = (log_std + log_std[built_in.action.perm]) / 2
        params = params._replace(log_std=log_std)
        # of observations as they are: the phase mask comes before normalization
        stats = take_in(learner.obs_stats, batch.next_obs, shards, built_in)
        metrics = {name: value.mean() for name, value in losses.items()}
        metrics["entropy"] = distributions.entropy(params.log_std)
        metrics["action_std"] = jnp.exp(params.log_std).mean()
        metrics["lr"] = opt_state.hyperparams["learning_rate"]
        return Learner(params, opt_state, stats), metrics

    made = actor_critic.made("ppo", needs, nets, init, update)
    clone = partial(actor_critic.cloned, nets) if config.motion_prior else None
    return made._replace(critic_warmup=config.critic_warmup_steps, clone=clone)


def _samples(
    config: PPOConfig,
    nets: Nets,
    learner: Learner,
    batch: Batch,
    symmetry: Symmetry | None,
    shards: Shards,
) -> Samples:
    head = learner.params.estimator
    samples = samples_of(
        nets, learner, batch, config.gamma, config.gae_lambda, shards, len(head.bias) if head else 0
    )
    if symmetry is None:
        return samples
    if config.symmetry == "augment":
        return with_mirrored(nets, learner, batch, samples, symmetry)
    if config.symmetry == "loss":
        mirrored = policy_inputs(nets, learner.obs_stats, batch, symmetry)
        return samples._replace(mirrored=mirrored)
    return samples


def _make_loss(
    config: PPOConfig,
    nets: Nets,
    symmetry: Symmetry | None,
    log_std_before: Array,
) -> Any:
    """loss(params, samples) -> (loss [], metrics). The samples are normalized by the statistics
    that the actions were taken with, so that probability ratios start at exactly 1."""

    def loss(params: Params, samples: Samples) -> tuple[Array, Metrics]:
        mean, hidden = nets.policy.forward(params.policy, samples.seen)
        log_prob = distributions.log_prob(samples.action, mean, params.log_std)
        ratio = jnp.exp(log_prob - samples.log_prob)
        clipped = jnp.clip(ratio, 1.0 - config.clip, 1.0 + config.clip)
        policy_loss = -jnp.minimum(ratio * samples.advantage, clipped * samples.advantage).mean()

        value = value_at(nets, params, samples.critic_seen)
        error = (value - samples.target) ** 2
        if config.value_clip > 0.0:
            change = jnp.clip(value - samples.value, -config.value_clip, config.value_clip)
            error = jnp.maximum(error, (samples.value + change - samples.target) ** 2)
        value_loss = error.mean()

        total = policy_loss + config.value_coef * value_loss
        total -= config.entropy_coef * distributions.entropy(params.log_std)
        metrics = {
            "loss/policy": policy_loss,
            "loss/value": value_loss,
            "kl": distributions.kl_divergence(
                samples.mean, log_std_before, mean, params.log_std
            ).mean(),
            "clip_fraction": (jnp.abs(ratio - 1.0) > config.clip).mean(),
        }
        if params.estimator:
            metrics["loss/estimation"] = estimation_loss(params.estimator, hidden, samples.unseen)
            total += config.estimation_coef * metrics["loss/estimation"]
        if symmetry is not None and config.symmetry == "loss":
            # the mirror image is a fixed target, which saves its backward pass; the factor of 2
            # below makes up for the gradient that it would have had
            reflected, _ = nets.policy.forward(params.policy, samples.mirrored)
            fixed = symmetry.action(lax.stop_gradient(reflected))
            metrics["loss/symmetry"] = ((mean - fixed) ** 2).mean()
            total += 2.0 * config.symmetry_coef * metrics["loss/symmetry"]
        return total, metrics

    return loss


def _optimize(
    counts: tuple[int, int],
    minimize: Any,
    loss: Any,
    learner: Learner,
    samples: Samples,
    key: Array,
    shards: Shards,
) -> tuple[Params, Any, Metrics]:
    """All epochs of shuffled minibatches; returns the metrics of each minibatch, stacked.

    counts: epochs, and minibatches in each; mirrored samples make them larger, not more. Where the
    samples do not divide evenly, each pass leaves a few of them out, never the same. Sequences of
    fewer environments than minibatches make one minibatch each.
    shards: of which the samples are one, and each brings its share of every minibatch. The mean
    gradient is taken before it is clipped, so that all shards make the same step.
    """
    size, (epochs, count) = samples.advantage.shape[0], counts
    count = min(count, size)
    length = size // count

    def step(carry: tuple[Params, Any], index: Array) -> tuple[tuple[Params, Any], Metrics]:
        params, opt_state = carry
        part = jax.tree.map(lambda x: x[index], samples)
        (_, metrics), gradient = jax.value_and_grad(loss, has_aux=True)(params, part)
        gradient = shards.mean(gradient)
        change, opt_state = minimize(gradient, opt_state, params)
        metrics["grad_norm"] = optax.global_norm(gradient)
        return (optax.apply_updates(params, change), opt_state), metrics

    def epoch(carry: tuple[Params, Any], key: Array) -> tuple[tuple[Params, Any], Metrics]:
        # one sort; `jax.random.permutation` sorts twice, so that no two numbers are ever equal
        order = jnp.argsort(jax.random.bits(key, (size,)))[: length * count]
        return lax.scan(step, carry, order.reshape(count, length))

    keys = jax.random.split(key, epochs)
    (params, opt_state), metrics = lax.scan(epoch, (learner.params, learner.opt_state), keys)
    return params, opt_state, shards.mean(metrics)
