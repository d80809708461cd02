"""What SAC and DQN have in common: collect into a replay, learn from samples of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array, lax

from jaxrl_hw.algos.actor_critic import begun, masked
from jaxrl_hw.algos.networks.policy_net import PolicyNet
from jaxrl_hw.algos.replay import Replay, Transitions, empty, sample, write
from jaxrl_hw.algos.replay_knobs import ReplayConfig
from jaxrl_hw.types import Batch, Learner, Metrics, Needs, Observation, PhaseMask, ReplayNeeds

GradientStep = Callable[[Any, Any, Transitions, Array], tuple[Any, Any, Metrics]]
"""(params, opt_state, transitions, key) -> (params, opt_state, metrics)"""


class Recipe(NamedTuple):
    """How a learner learns from its replay."""

    config: ReplayConfig  # sized
    history: int  # observations that the policy sees
    needs: ReplayNeeds

    def empty(self, envs: int, obs: Observation, action: Array) -> Replay:
        """An empty replay; obs, action: one of each."""
        return empty(self.needs, envs, obs, action, self.config.replay_dtype)

    def remember(self, replay: Replay, batch: Batch, action: Array, sees_critic: bool) -> Replay:
        """The replay with a batch.

        action: [T, N, A], as it is stored. sees_critic: whether the critic's observations are.
        """

        def stored(obs: Observation) -> Observation:
            critic = obs.critic if sees_critic else obs.critic[..., :0]
            return Observation(masked(batch.phase_mask, obs.policy), critic)

        return write(replay, batch, stored(batch.obs), stored(batch.next_obs), action)

    def learn(self, learner: Learner, step: GradientStep, key: Array) -> tuple[Any, Any, Metrics]:
        """Params, optimizer's state and mean metrics after the gradient steps of one iteration.

        There are none while the replay holds too little; the metrics are 0 then. Consumes key.
        """
        config, replay = self.config, learner.replay
        slots, envs = replay.reward.shape
        enough = max(-(-config.learning_starts // envs), self.needs.span + 1)
        ready = replay.filled >= min(enough, slots)

        def one(carry: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], Metrics]:
            key_sample, key_step = jax.random.split(key)
            transitions = sample(
                replay, key_sample, config.batch_size, self.history, config.n_step, config.gamma
            )
            params, opt_state, metrics = step(*carry, transitions, key_step)
            return (params, opt_state), metrics

        def steps(carry: tuple[Any, Any]) -> tuple[tuple[Any, Any], Metrics]:
            carry, metrics = lax.scan(one, carry, jax.random.split(key, config.gradient_steps))
            return carry, jax.tree.map(lambda x: x.mean(), metrics)

        start = learner.params, learner.opt_state
        form = jax.eval_shape(steps, start)[1]

        def none(carry: tuple[Any, Any]) -> tuple[tuple[Any, Any], Metrics]:
            return carry, jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), form)

        (params, opt_state), metrics = lax.cond(ready, steps, none, start)
        metrics["gradient_steps"] = ready * jnp.int32(config.gradient_steps)
        metrics["replay_filled"] = replay.filled * envs
        metrics["lr"] = jnp.float32(config.learning_rate)
        return params, opt_state, metrics


def recipe(config: ReplayConfig, needs: Needs, history: int) -> Recipe:
    """The recipe of an algorithm with a replay."""
    assert needs.replay is not None
    return Recipe(config, history, needs.replay)


def outputs(
    net: PolicyNet,
    learner: Learner,
    policy_obs: Array,
    phase_mask: PhaseMask | None,
    memory: Any,
) -> tuple[Array, Any]:
    """The policy network's outputs [N, K] for observations [N, O], and the memory, which is that of
    an episode's start where () is given."""
    memory, stats = begun(net, memory, policy_obs), learner.obs_stats.policy
    return net.step(learner.params.policy, stats, memory, masked(phase_mask, policy_obs))


def blend(target: Any, params: Any, tau: float) -> Any:
    """Target networks that have moved by a share tau towards the networks (Polyak averaging)."""
    return jax.tree.map(lambda t, p: t + tau * (p - t), target, params)


def shortened(gradient: Any, most: float) -> Any:
    """A gradient of which the global norm is at most `most`; 0: as it is."""
    if not most:
        return gradient
    return optax.clip_by_global_norm(most).update(gradient, optax.EmptyState())[0]


def within(params: Any, most: float) -> Any:
    """Parameters of which the weights into one unit, a kernel's [..., inputs, units], have a norm
    of at most `most` (Srivastava et al. 2014, section 5.1); 0: as they are."""

    def bounded(path: Any, x: Array) -> Array:
        if getattr(path[-1], "key", None) != "kernel":
            return x
        norm = jnp.linalg.norm(x, axis=-2, keepdims=True)
        return x * (most / jnp.maximum(norm, most))

    return jax.tree_util.tree_map_with_path(bounded, params) if most else params


def weighted_mean(x: Array, weight: Array) -> Array:
    """Mean [] of x [B] over the samples that count, weight [B]."""
    return (x * weight).sum() / jnp.maximum(weight.sum(), 1.0)
