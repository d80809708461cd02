"""Soft actor-critic.

Haarnoja et al. 2018 (arXiv:1812.05905), with twin critics, target networks, a temperature that
holds the entropy, n-step returns and running observation statistics. The policy is a Gaussian,
squashed by tanh to where the joints' ranges end. The critics may be distributional.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from jaxrl_hw.algos import off_policy
from jaxrl_hw.algos.actor_critic import ObsStats, take_in
from jaxrl_hw.algos.networks import distributions, normalize
from jaxrl_hw.algos.networks.critic import Critics
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.policy_net import (
    PolicyNet,
    first_outputs,
    make_policy_net,
    with_last_bias,
)
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.replay import Replay, Transitions
from jaxrl_hw.algos.replay_knobs import history_of
from jaxrl_hw.algos.sac_settings import ENTRY, SACConfig
from jaxrl_hw.types import (
    WHOLE,
    Algorithm,
    Batch,
    EnvSpec,
    Head,
    Learner,
    Metrics,
    Observation,
    PhaseMask,
    PolicyParts,
    Shards,
    Sizes,
)

LOG_STD = (-5.0, 2.0)
"""Bounds of the logarithm of the standard deviation, before the squashing."""


class Params(NamedTuple):
    policy: Any  # its outputs are mean and log_std
    critics: Any  # leaves [2, ...]
    target: Any  # as critics
    log_alpha: Array  # []


class OptState(NamedTuple):
    policy: Any
    critics: Any
    log_alpha: Any


class Nets(NamedTuple):
    """The networks, and how far actions go [A]."""

    policy: PolicyNet
    critics: Critics
    limit: Array

    def gaussian(self, out: Array) -> tuple[Array, Array]:
        """Outputs [..., 2 A] -> mean and log_std [..., A] before the squashing."""
        mean, log_std = jnp.split(out, 2, axis=-1)
        return mean, jnp.clip(log_std, *LOG_STD)

    def draw(self, out: Array, key: Array) -> tuple[Array, Array]:
        """Actions [..., A] and their log densities [...]. Consumes key."""
        mean, log_std = self.gaussian(out)
        x = distributions.sample(key, mean, log_std)
        density = distributions.log_prob(x, mean, log_std)
        return self.limit * jnp.tanh(x), density - log_stretch(x, self.limit).sum(axis=-1)


def log_stretch(x: Array, limit: Array) -> Array:
    """log d(limit tanh x)/dx, exact where tanh is at its ends."""
    return jnp.log(limit) + 2.0 * (math.log(2.0) - x - jax.nn.softplus(-2.0 * x))


def make(config: SACConfig, net: NetConfig, spec: EnvSpec, precision: str = "float32") -> Algorithm:
    """SAC for an environment's sizes; see `jaxrl_hw.types.Algorithm` for what is returned."""
    limit = jnp.ones(spec.action_size) if spec.action_limit is None else spec.action_limit
    nets = Nets(
        make_policy_net(net, spec.obs_size, 2 * spec.action_size, None, precision),
        _critics(config, net, precision),
        jnp.asarray(limit, jnp.float32),
    )
    sizes = Sizes(spec.obs_size, spec.critic_size, spec.action_size, spec.symmetry is not None)
    needs = ENTRY.needs(config, net, sizes)
    recipe, rates = off_policy.recipe(config, needs, history_of(net)), _optimizers(config)

    def init(key: Array) -> Learner:
        params = _fresh(config, nets, net.init_std, spec, key)
        opt_state = OptState(
            rates.policy.init(params.policy),
            rates.critics.init(params.critics),
            rates.log_alpha.init(params.log_alpha),
        )
        stats = ObsStats(normalize.init(spec.obs_size), normalize.init(spec.critic_size))
        return Learner(params, opt_state, stats)

    def update(
        learner: Learner, batch: Batch, key: Array, shards: Shards = WHOLE
    ) -> tuple[Learner, Metrics]:
        replay = recipe.remember(learner.replay, batch, batch.action, sees_critic=True)
        stats = take_in(learner.obs_stats, batch.next_obs, shards)
        step = partial(_gradient_step, config, nets, rates, stats)
        learner = Learner(learner.params, learner.opt_state, stats, replay)
        params, opt_state, metrics = recipe.learn(learner, step, key)
        metrics["alpha"] = jnp.exp(params.log_alpha)
        return Learner(params, opt_state, stats, replay), metrics

    def replay(count: int) -> Replay:
        nothing = Observation(jnp.zeros(spec.obs_size), jnp.zeros(spec.critic_size))
        return recipe.empty(count, nothing, jnp.zeros(spec.action_size))

    def parts(learner: Learner) -> PolicyParts:
        weights = first_outputs(learner.params.policy, spec.action_size)
        return PolicyParts(
            weights,
            learner.obs_stats.policy,
            jnp.zeros(spec.action_size),
            Head("tanh", nets.limit),
        )

    act, policy = partial(_act, nets), partial(_policy, nets)
    return Algorithm(
        "sac", needs, init, act, update, policy, start=nets.policy.start, replay=replay, parts=parts
    )


def _critics(config: SACConfig, net: NetConfig, precision: str) -> Critics:
    outputs = config.atoms or 1
    mlp = MLP(net.value, outputs, net.activation, dtype=precision, layer_norm=config.layer_norm)
    return Critics(mlp, jnp.linspace(*config.return_range, config.atoms) if config.atoms else None)


def _act(
    nets: Nets,
    learner: Learner,
    obs: Observation,
    key: Array,
    phase_mask: PhaseMask | None = None,
    memory: Any = (),
) -> tuple[Array, dict[str, Array], Any]:
    """Exploring actions [N, A], and the memory. Consumes key."""
    out, memory = off_policy.outputs(nets.policy, learner, obs.policy, phase_mask, memory)
    return nets.draw(out, key)[0], {}, memory


def _policy(
    nets: Nets,
    learner: Learner,
    policy_obs: Array,
    phase_mask: PhaseMask | None = None,
    memory: Any = (),
) -> tuple[Array, Any]:
    """Actions [N, A] without exploration, and the memory."""
    out, memory = off_policy.outputs(nets.policy, learner, policy_obs, phase_mask, memory)
    return nets.limit * jnp.tanh(nets.gaussian(out)[0]), memory


def _optimizers(config: SACConfig) -> OptState:
    """The rules of each part, in place of their states."""
    adam = partial(optax.adam, config.learning_rate)
    return OptState(adam(), adam(), optax.adam(config.alpha_learning_rate))


def _fresh(config: SACConfig, nets: Nets, init_std: float, spec: EnvSpec, key: Array) -> Params:
    """Networks that know nothing yet, and noise of init_std in units of action. Consumes key."""
    key_policy, key_critics = jax.random.split(key)
    size = spec.critic_size + spec.action_size
    critics = jax.vmap(lambda k: nets.critics.mlp.init(k, jnp.zeros(size)))(
        jax.random.split(key_critics, 2)
    )
    log_std = jnp.clip(jnp.log(init_std / nets.limit), *LOG_STD)
    policy = with_last_bias(
        nets.policy.init(key_policy), jnp.concatenate([jnp.zeros(spec.action_size), log_std])
    )
    target = jax.tree.map(jnp.copy, critics)
    return Params(policy, critics, target, jnp.log(jnp.float32(config.alpha_start)))


def _gradient_step(
    config: SACConfig,
    nets: Nets,
    rates: OptState,
    stats: ObsStats,
    params: Params,
    opt_state: OptState,
    t: Transitions,
    key: Array,
) -> tuple[Params, OptState, Metrics]:
    """Fit the critics, then the policy to them, then the temperature. Consumes key."""
    key_next, key_now = jax.random.split(key)
    alpha, mean = jnp.exp(params.log_alpha), partial(off_policy.weighted_mean, weight=t.weight)
    obs, next_obs = (normalize.normalize(stats.critic, x) for x in (t.critic, t.next_critic))

    def acting(policy: Any, seen: Array, key: Array) -> tuple[Array, Array]:
        return nets.draw(
            nets.policy.forward(policy, nets.policy.prepared(stats.policy, seen))[0], key
        )

    action, density = acting(params.policy, t.next_seen, key_next)
    following = nets.critics.lower(nets.critics.outputs(params.target, next_obs, action))
    target = nets.critics.target(following, t.reward, t.discount, -alpha * density)
    target = lax.stop_gradient(target)

    def critic_loss(critics: Any) -> tuple[Array, Array]:
        out = nets.critics.outputs(critics, obs, t.action)
        return mean(nets.critics.loss(out, target)), nets.critics.values(out).mean()

    (value_loss, value), gradient = jax.value_and_grad(critic_loss, has_aux=True)(params.critics)
    change, critics_state = rates.critics.update(gradient, opt_state.critics, params.critics)
    critics = optax.apply_updates(params.critics, change)

    def policy_loss(policy: Any) -> tuple[Array, Array]:
        action, density = acting(policy, t.seen, key_now)
        value = nets.critics.values(nets.critics.outputs(critics, obs, action)).min(axis=0)
        return mean(alpha * density - value), mean(density)

    (loss, density_now), gradient = jax.value_and_grad(policy_loss, has_aux=True)(params.policy)
    change, policy_state = rates.policy.update(gradient, opt_state.policy, params.policy)
    policy = optax.apply_updates(params.policy, change)

    wanted = config.target_entropy * nets.limit.size
    # the temperature rises while the entropy is below the wanted one
    change, alpha_state = rates.log_alpha.update(-density_now - wanted, opt_state.log_alpha)
    log_alpha = optax.apply_updates(params.log_alpha, change)
    metrics = {
        "loss/value": value_loss,
        "loss/policy": loss,
        "entropy": -density_now,
        "q": value,
    }
    moved = Params(policy, critics, off_policy.blend(params.target, critics, config.tau), log_alpha)
    return moved, OptState(policy_state, critics_state, alpha_state), metrics
