"""Soft actor-critic.

Haarnoja et al. 2018 (arXiv:1812.05905), with twin critics, target networks, a temperature that
holds the entropy, n-step returns and running observation statistics. The policy is a Gaussian,
squashed by tanh to where the joints' ranges end. The critics may be distributional.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import optax
from jax import Array

from jaxrl_hw.algos import off_policy
from jaxrl_hw.algos.actor_critic import ObsStats, take_in
from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.critic import Critics
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.networks.policy_net import first_outputs, make_policy_net
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.optimizer import env_steps_before
from jaxrl_hw.algos.replay import Replay
from jaxrl_hw.algos.replay_knobs import history_of
from jaxrl_hw.algos.sac_nets import Nets, cloned, fresh
from jaxrl_hw.algos.sac_settings import ENTRY, SACConfig
from jaxrl_hw.algos.sac_update import OptState, gradient_step, prior_weight
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


def make(config: SACConfig, net: NetConfig, spec: EnvSpec, precision: str = "float32") -> Algorithm:
    """SAC for an environment's sizes; see `jaxrl_hw.types.Algorithm` for what is returned."""
    nets = _nets(config, net, spec, precision)
    sizes = Sizes(spec.obs_size, spec.critic_size, spec.action_size, spec.symmetry is not None)
    needs = ENTRY.needs(config, net, sizes)
    recipe, rates = off_policy.recipe(config, needs, history_of(net)), _optimizers(config)

    def init(key: Array) -> Learner:
        params = fresh(config, nets, net.init_std, spec, key)
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
        held = prior_weight(config, env_steps_before(batch))
        step = partial(gradient_step, config, nets, rates, stats, held)
        learner = Learner(learner.params, learner.opt_state, stats, replay)
        params, opt_state, metrics = recipe.learn(learner, step, key)
        improved = jnp.maximum(metrics.pop("improved"), 1e-9)
        metrics |= {name: metrics[name] / improved for name in ("loss/policy", "entropy")}
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

    return Algorithm(
        "sac",
        needs,
        init,
        partial(_act, nets),
        update,
        partial(_policy, nets),
        start=nets.policy.start,
        clone=partial(cloned, nets) if config.motion_prior else None,
        replay=replay,
        parts=parts,
    )


def _nets(config: SACConfig, net: NetConfig, spec: EnvSpec, precision: str) -> Nets:
    limit = jnp.ones(spec.action_size) if spec.action_limit is None else spec.action_limit
    outputs = config.atoms or 1
    mlp = MLP(net.value, outputs, net.activation, dtype=precision, layer_norm=config.layer_norm)
    returns = jnp.linspace(*config.return_range, config.atoms) if config.atoms else None
    return Nets(
        make_policy_net(net, spec.obs_size, 2 * spec.action_size, None, precision),
        Critics(mlp, returns),
        jnp.asarray(limit, jnp.float32),
    )


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
    return nets.mean(out), memory


def _optimizers(config: SACConfig) -> OptState:
    """The rules of each part, in place of their states."""
    adam = partial(optax.adam, config.learning_rate)
    return OptState(adam(), adam(), optax.adam(config.alpha_learning_rate))
