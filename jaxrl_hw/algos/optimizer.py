"""PPO's optimizer: Adam, the learning rate over a run, a critic's warm-up, the policy's mean.

With a new value network a trained policy's advantages are noise at first, and within some
iterations the policy would lose what it can: it is frozen until the critic has learned its worth.

Weights that are still learning oscillate around their goal, and so does the robot's behaviour.
Their mean does not (Polyak and Juditsky 1992, doi:10.1137/0330046). Evaluation and export use the
mean; experience is collected with the weights themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.types import MILLION, WHOLE, Batch, Shards


def make_optimizer(config: PPOConfig) -> optax.GradientTransformationExtraArgs:
    """For parameters with the fields `policy` and `value`.

    Its update takes `frozen`, bool []: whether only the value network is to learn.
    """

    def clipped_adam(learning_rate: Any) -> optax.GradientTransformation:
        adam = optax.adam(learning_rate, eps=1e-5)
        clip = optax.clip_by_global_norm(config.max_grad_norm)
        mean = [follow(config.weight_averaging)] if config.weight_averaging else []
        frozen = freeze_policy(adam) if config.critic_warmup_steps else adam
        return optax.chain(clip, frozen, *mean)

    # the rate is part of the state, so that it is saved and continues with it
    return optax.inject_hyperparams(clipped_adam)(
        learning_rate=jax.device_put(np.float32(config.learning_rate))
    )


class Clock(NamedTuple):
    """Where an update is in its run."""

    annealed: Array  # [] 0 to 1 after it; 0 without annealing
    is_warming: Array  # bool [], only the critic learns in it
    warmed_up: Array  # bool [], the warm-up is over after it


def env_steps_before(batch: Batch) -> Array:
    """Env steps done before a batch [], in millions; one that does not know them is a run's
    first."""
    steps = jnp.zeros(2, jnp.uint32) if batch.env_steps is None else batch.env_steps
    return steps[0].astype(jnp.float32) + steps[1].astype(jnp.float32) / MILLION


def clock_of(config: PPOConfig, batch: Batch, shards: Shards = WHOLE) -> Clock:
    """The clock of a batch's update; a batch that does not know its env steps is a run's first.

    shards: of which the batch is one.
    """
    before = env_steps_before(batch)
    after = before + shards.number * batch.reward.size / MILLION
    warmup, anneal = config.critic_warmup_steps / MILLION, config.anneal_steps / MILLION
    annealed = jnp.minimum(after / anneal, 1.0) if anneal else jnp.zeros(())
    return Clock(annealed, before < warmup, after >= warmup)


def adapt_rate(config: PPOConfig, opt_state: Any, clock: Clock, kl: Array) -> Any:
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
    top = config.lr_max if config.lr_schedule == "adaptive" else config.learning_rate
    rate = jnp.minimum(rate, jnp.asarray(top) * (1.0 - 0.9 * clock.annealed))
    if config.critic_warmup_steps:
        # an untrained critic learns fastest at the largest rate, which would ruin a trained policy
        first = jnp.minimum(rate, config.learning_rate)
        rate = jnp.where(clock.is_warming, jnp.where(clock.warmed_up, first, top), rate)
    rate = rate.astype(hyper["learning_rate"].dtype)
    return opt_state._replace(hyperparams={**hyper, "learning_rate": rate})


def slowed(opt_state: Any) -> Any:
    """The optimizer's state with half the rate."""
    hyper = opt_state.hyperparams
    return opt_state._replace(hyperparams={**hyper, "learning_rate": hyper["learning_rate"] / 2})


def noise_bound(config: PPOConfig, init_std: float, clock: Clock) -> Array:
    """Upper bound of the policy's log standard deviation after an update."""
    done = clock.annealed
    falling = (1.0 - done) * jnp.log(init_std) + done * jnp.log(config.end_std)
    return jnp.where(done > 0.0, falling, jnp.inf)


def freeze_policy(adam: optax.GradientTransformation) -> optax.GradientTransformationExtraArgs:
    """Adam that changes only the value network where it is told to.

    Its moments follow the policy's gradient meanwhile, so that the policy's first step is no larger
    than the others. Its state is Adam's own.
    """

    def update(
        gradient: Any, state: Any, params: Any = None, *, frozen: Any = False, **_: Any
    ) -> tuple[Any, Any]:
        changes, after = adam.update(gradient, state, params)
        moved = jax.tree.map(lambda x: jnp.where(frozen, jnp.zeros_like(x), x), changes)
        return moved._replace(value=changes.value), after

    return optax.GradientTransformationExtraArgs(adam.init, update)


class PolicyMean(NamedTuple):
    """Part of the optimizer's state, so that checkpoints save it."""

    taken: Array  # int32 [], minibatches averaged over
    policy: Any  # as the policy's parameters


def follow(part: float) -> optax.GradientTransformation:
    """Leaves updates as they are, and averages the weights that follow from them.

    After t minibatches the mean covers about the last `part` of them, above 0 and at most 1; older
    ones count less (Shamir and Zhang 2013, arXiv:1212.1824, section 4).
    """

    def init(params: Any) -> PolicyMean:
        return PolicyMean(jnp.zeros((), jnp.int32), jax.tree.map(jnp.copy, params.policy))

    def update(changes: Any, state: PolicyMean, params: Any = None) -> tuple[Any, PolicyMean]:
        taken = state.taken + 1
        weight = jnp.minimum(1.0, 1.0 / (part * taken))
        now = optax.apply_updates(params.policy, changes.policy)
        mean = jax.tree.map(lambda m, x: m + (weight * (x - m)).astype(m.dtype), state.policy, now)
        return changes, PolicyMean(taken, mean)

    return optax.GradientTransformation(init, update)


def averaged(policy: Any, opt_state: Any) -> Any:
    """A policy's mean weights where the optimizer follows them, else those that it has."""
    means = [s.policy for s in opt_state.inner_state if isinstance(s, PolicyMean)]
    return means[0] if means else policy


def restarted(opt_state: Any, policy: Any) -> Any:
    """The optimizer's state where the policy's weights have been replaced by these."""
    inner = opt_state.inner_state
    anew = (s._replace(policy=policy) if isinstance(s, PolicyMean) else s for s in inner)
    return opt_state._replace(inner_state=tuple(anew))
