"""One gradient step of SAC: the critics, and every few steps the policy and the temperature."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from jaxrl_hw.algos.actor_critic import ObsStats
from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.policy_net import Inputs
from jaxrl_hw.algos.off_policy import blend, shortened, weighted_mean, within
from jaxrl_hw.algos.replay import Transitions
from jaxrl_hw.algos.sac_nets import Nets, Params
from jaxrl_hw.algos.sac_settings import SACConfig
from jaxrl_hw.types import MILLION, Metrics


class OptState(NamedTuple):
    """Of each part; or the rules of each part."""

    policy: Any
    critics: Any
    log_alpha: Any


def prior_weight(config: SACConfig, millions: Array) -> Array:
    """The weight of the distance from the motion prior [] after so many million env steps []."""
    left = 1.0 - millions * (MILLION / config.prior_steps) if config.prior_steps else 0.0
    return config.prior_coef * jnp.maximum(left, 0.0)


def gradient_step(
    config: SACConfig,
    nets: Nets,
    rates: OptState,
    stats: ObsStats,
    held: Array,
    params: Params,
    opt_state: OptState,
    t: Transitions,
    key: Array,
) -> tuple[Params, OptState, Metrics]:
    """Fit the critics, and at every `policy_delay`-th step the policy to them. Consumes key.

    held: [], weight of the policy's distance from its motion prior.
    """
    key_next, key_now = jax.random.split(key)
    obs, next_obs = (normalize.normalize(stats.critic, x) for x in (t.critic, t.next_critic))
    seen, next_seen = (nets.policy.prepared(stats.policy, x) for x in (t.seen, t.next_seen))

    out, _ = nets.policy.forward(params.policy, next_seen)
    action, density = nets.draw(out, key_next)
    following = nets.critics.lower(nets.critics.outputs(params.target, next_obs, action))
    bonus = -jnp.exp(params.log_alpha) * density
    target = lax.stop_gradient(nets.critics.target(following, t.reward, t.discount, bonus))

    def critic_loss(critics: Any) -> tuple[Array, Array]:
        out = nets.critics.outputs(critics, obs, t.action)
        loss = weighted_mean(nets.critics.loss(out, target), t.weight)
        return loss, nets.critics.values(out).mean()

    (value_loss, value), gradient = jax.value_and_grad(critic_loss, has_aux=True)(params.critics)
    bounded = shortened(gradient, config.max_grad_norm)
    change, critics_state = rates.critics.update(bounded, opt_state.critics, params.critics)
    critics = within(optax.apply_updates(params.critics, change), config.max_weight_norm)
    params = params._replace(critics=critics, target=blend(params.target, critics, config.tau))
    opt_state = opt_state._replace(critics=critics_state)

    improve = partial(_improved, config, nets, rates, held, seen, obs, t.weight, key_now)
    form = jax.eval_shape(improve, params, opt_state)[2]
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), form)
    is_due = optax.tree_utils.tree_get(critics_state, "count") % config.policy_delay == 0
    params, opt_state, metrics = lax.cond(
        is_due,
        improve,
        lambda *as_they_are: (*as_they_are, nothing),
        params,
        opt_state,
    )
    norm = optax.global_norm((gradient, metrics["grad_norm"]))  # of the critics and the policy
    return params, opt_state, metrics | {"loss/value": value_loss, "q": value, "grad_norm": norm}


def _improved(
    config: SACConfig,
    nets: Nets,
    rates: OptState,
    held: Array,
    seen: Inputs,
    obs: Array,
    weight: Array,
    key: Array,
    params: Params,
    opt_state: OptState,
) -> tuple[Params, OptState, Metrics]:
    """A step of the policy towards what the critics value, and of the temperature. Consumes key.

    seen, obs: what policy and critics take in [B, ...], normalized. weight: [B].
    """

    def policy_loss(policy: Any) -> tuple[Array, Array]:
        out, _ = nets.policy.forward(policy, seen)
        action, density = nets.draw(out, key)
        value = nets.critics.values(nets.critics.outputs(params.critics, obs, action)).min(axis=0)
        cost = jnp.exp(params.log_alpha) * density - value
        if params.prior:
            prior, _ = nets.policy.forward(params.prior, seen)
            distance = ((nets.mean(out) - nets.mean(prior)) ** 2).sum(axis=-1)
            cost += held * distance
        return weighted_mean(cost, weight), weighted_mean(density, weight)

    (loss, density), gradient = jax.value_and_grad(policy_loss, has_aux=True)(params.policy)
    bounded = shortened(gradient, config.max_grad_norm)
    change, policy_state = rates.policy.update(bounded, opt_state.policy, params.policy)
    policy = within(optax.apply_updates(params.policy, change), config.max_weight_norm)

    wanted = config.target_entropy * nets.limit.size
    # the temperature rises while the entropy is below the wanted one
    change, alpha_state = rates.log_alpha.update(-density - wanted, opt_state.log_alpha)
    params = params._replace(policy=policy, log_alpha=optax.apply_updates(params.log_alpha, change))
    opt_state = opt_state._replace(policy=policy_state, log_alpha=alpha_state)
    metrics = {
        "loss/policy": loss,
        "grad_norm": optax.global_norm(gradient),
        "entropy": -density,
        "improved": jnp.ones(()),
    }
    return params, opt_state, metrics
