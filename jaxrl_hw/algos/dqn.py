"""Deep Q-learning.

Mnih et al. 2015 (doi:10.1038/nature14236), with double Q-learning, n-step returns, running
observation statistics, and an optional dueling network. The policy takes the action of the largest
value; exploring, it takes a random one with probability epsilon.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from jaxrl_hw.algos import off_policy
from jaxrl_hw.algos.dqn_settings import ENTRY, DQNConfig, outputs_of, q_net
from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.policy_net import PolicyNet, first_outputs, make_policy_net
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.optimizer import env_steps_before
from jaxrl_hw.algos.replay import Replay, Transitions
from jaxrl_hw.algos.replay_knobs import history_of
from jaxrl_hw.types import (
    MILLION,
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


class Params(NamedTuple):
    policy: Any  # the Q-network
    target: Any


class OptState(NamedTuple):
    adam: Any
    epsilon: Array  # [] share of random actions


class ObsStats(NamedTuple):
    policy: normalize.RunningStats


def make(config: DQNConfig, net: NetConfig, spec: EnvSpec, precision: str = "float32") -> Algorithm:
    """DQN for an environment's sizes and its discrete actions; see `jaxrl_hw.types.Algorithm`."""
    actions = np.asarray(spec.action_set, np.float32)
    sizes = Sizes(spec.obs_size, spec.critic_size, spec.action_size, False, len(actions))
    needs, outputs = ENTRY.needs(config, net, sizes), outputs_of(config, len(actions))
    q = make_policy_net(q_net(config, net), spec.obs_size, outputs, None, precision)
    clip = optax.clip_by_global_norm(config.max_grad_norm)
    adam = optax.chain(clip, optax.adam(config.learning_rate, eps=1e-5))
    recipe = off_policy.recipe(config, needs, history_of(net))

    def init(key: Array) -> Learner:
        params = q.init(key)
        opt_state = OptState(adam.init(params), jnp.float32(config.epsilon_start))
        stats = ObsStats(normalize.init(spec.obs_size))
        return Learner(Params(params, jax.tree.map(jnp.copy, params)), opt_state, stats)

    def update(
        learner: Learner, batch: Batch, key: Array, shards: Shards = WHOLE
    ) -> tuple[Learner, Metrics]:
        chosen = batch.extras["chosen"][..., None]
        replay = recipe.remember(learner.replay, batch, chosen, sees_critic=False)
        stats = ObsStats(normalize.update(learner.obs_stats.policy, batch.next_obs.policy))
        values = partial(_values, q, stats.policy, len(actions))
        step = partial(_gradient_step, config, values, adam)
        learner = Learner(learner.params, learner.opt_state, stats, replay)
        params, opt_state, metrics = recipe.learn(learner, step, key)
        opt_state = opt_state._replace(epsilon=epsilon_after(config, batch))
        metrics["epsilon"] = opt_state.epsilon
        return Learner(params, opt_state, stats, replay), metrics

    def replay(count: int) -> Replay:
        nothing = Observation(jnp.zeros(spec.obs_size), jnp.zeros(0))
        return recipe.empty(count, nothing, jnp.zeros(1, jnp.int32))

    def parts(learner: Learner) -> PolicyParts:
        # of a dueling network the advantages alone decide which action is the best
        weights = first_outputs(learner.params.policy, len(actions))
        return PolicyParts(
            weights, learner.obs_stats.policy, jnp.zeros(spec.action_size), Head("argmax", actions)
        )

    act, policy = partial(_act, q, actions), partial(_policy, q, actions)
    return Algorithm(
        "dqn", needs, init, act, update, policy, start=q.start, replay=replay, parts=parts
    )


def _act(
    q: PolicyNet,
    actions: np.ndarray,
    learner: Learner,
    obs: Observation,
    key: Array,
    phase_mask: PhaseMask | None = None,
    memory: Any = (),
) -> tuple[Array, dict[str, Array], Any]:
    """Actions [N, A], some of them random; which they are [N]; and the memory. Consumes key."""
    key_whether, key_which = jax.random.split(key)
    out, memory = off_policy.outputs(q, learner, obs.policy, phase_mask, memory)
    count = (len(obs.policy),)
    explores = jax.random.uniform(key_whether, count) < learner.opt_state.epsilon
    other = jax.random.randint(key_which, count, 0, len(actions))
    chosen = jnp.where(explores, other, jnp.argmax(out[:, : len(actions)], axis=-1))
    return jnp.asarray(actions)[chosen], {"chosen": chosen.astype(jnp.int32)}, memory


def _policy(
    q: PolicyNet,
    actions: np.ndarray,
    learner: Learner,
    policy_obs: Array,
    phase_mask: PhaseMask | None = None,
    memory: Any = (),
) -> tuple[Array, Any]:
    """The best actions [N, A], and the memory."""
    out, memory = off_policy.outputs(q, learner, policy_obs, phase_mask, memory)
    return jnp.asarray(actions)[jnp.argmax(out[:, : len(actions)], axis=-1)], memory


def epsilon_after(config: DQNConfig, batch: Batch) -> Array:
    """The share of random actions [] after a batch."""
    done = env_steps_before(batch) + batch.reward.size / MILLION
    part = jnp.minimum(done / max(config.epsilon_steps / MILLION, 1e-9), 1.0)
    return config.epsilon_start + part * (config.epsilon_end - config.epsilon_start)


def dueling(out: Array, actions: int) -> Array:
    """Values [..., K] from the network's outputs: as they are, or K advantages and one value."""
    if out.shape[-1] == actions:
        return out
    advantage, value = out[..., :actions], out[..., actions:]
    return value + advantage - advantage.mean(axis=-1, keepdims=True)


def targets(
    config: DQNConfig, next_q: Array, next_target: Array, reward: Array, discount: Array
) -> Array:
    """What Q is fitted to [B].

        double: R + discount * Q_target(s', argmax_a Q(s', a)), else R + discount * max Q_target

    Args:
      next_q, next_target: [B, K] of the network and of its target.
      reward, discount: [B].
    """
    choice = jnp.argmax(next_q if config.double else next_target, axis=-1)
    return reward + discount * _at(next_target, choice)


def _at(values: Array, choice: Array) -> Array:
    """[B, K], int [B] -> [B]."""
    return jnp.take_along_axis(values, choice[:, None], axis=-1)[:, 0]


def _values(
    q: PolicyNet, stats: normalize.RunningStats, actions: int, params: Any, seen: Array
) -> Array:
    return dueling(q.forward(params, q.prepared(stats, seen))[0], actions)


def _gradient_step(
    config: DQNConfig,
    values: Any,
    adam: optax.GradientTransformation,
    params: Params,
    opt_state: OptState,
    t: Transitions,
    key: Array,
) -> tuple[Params, OptState, Metrics]:
    next_q, next_target = (values(p, t.next_seen) for p in (params.policy, params.target))
    target = targets(config, next_q, next_target, t.reward, t.discount)

    def loss(policy: Any) -> tuple[Array, Array]:
        value = _at(values(policy, t.seen), t.action[:, 0])
        errors = optax.huber_loss(value, target)
        return off_policy.weighted_mean(errors, t.weight), value.mean()

    (error, value), gradient = jax.value_and_grad(loss, has_aux=True)(params.policy)
    change, adam_state = adam.update(gradient, opt_state.adam, params.policy)
    policy = optax.apply_updates(params.policy, change)
    moved = Params(policy, off_policy.blend(params.target, policy, config.tau))
    metrics = {"loss/value": error, "q": value, "grad_norm": optax.global_norm(gradient)}
    return moved, opt_state._replace(adam=adam_state), metrics
