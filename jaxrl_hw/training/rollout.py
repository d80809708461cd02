"""Collecting experience: the first half of a train step."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrl_hw.envs.episode import Transition
from jaxrl_hw.envs.tasks.api import TaskParams
from jaxrl_hw.envs.vector import Env, VectorStep
from jaxrl_hw.types import WHOLE, Algorithm, Batch, Learner, Metrics, Shards, forget


class RolloutState(NamedTuple):
    """Every environment, and what the metrics carry from one iteration to the next."""

    envs: Any  # [N, ...]
    episode_return: Array  # [] mean of the last iteration in which episodes ended; NaN before
    episode_length: Array  # [] control steps, likewise
    memory: Any = ()  # [N, ...] what the policy remembers of each episode


def init_rollout(
    env: Env, algorithm: Algorithm, key: Array, task_params: TaskParams = None
) -> RolloutState:
    """Fresh environments, and a policy that remembers nothing of them. Consumes key.

    task_params: that they are reset with; None for those of the run's start.
    """
    nothing = jnp.full((), jnp.nan, jnp.float32)
    return RolloutState(
        env.reset(key, task_params), nothing, nothing, algorithm.start(env.num_envs)
    )


def collect(
    env: Env,
    algorithm: Algorithm,
    learner: Learner,
    state: RolloutState,
    key: Array,
    task_params: TaskParams = None,
    shards: Shards = WHOLE,
) -> tuple[RolloutState, Batch, Metrics]:
    """Act in every environment for `algorithm.unroll` control steps. Consumes key.

    One fresh episode for each environment is drawn beforehand, because drawing one at every step
    costs more than it gives. If two episodes of an environment end meanwhile, both are followed by
    the same start.

    task_params: that hold meanwhile; None for those of the run's start.
    shards: of which the state is one; the means and the metrics are over all of them.
    """
    phase_mask = env.phase_mask(task_params)

    def step(carry: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], Any]:
        (envs, memory), (key_act, key_step) = carry, jax.random.split(key)
        with jax.named_scope("policy"):
            action, extras, memory = algorithm.act(learner, envs.obs, key_act, phase_mask, memory)
        after, moved = env.step(envs, action, key_step, task_params, *following)
        memory = forget(memory, moved.terminated | moved.truncated)
        return (after, memory), (envs.obs, action, extras, moved)

    key_fresh, key_steps = jax.random.split(key)
    following: tuple[Any, ...] = ()
    if isinstance(env.step, VectorStep):
        count = len(jax.tree.leaves(state.envs)[0])
        following = (env.step.fresh(key_fresh, count, task_params),)
    keys = jax.random.split(key_steps, algorithm.unroll)
    carry, (obs, action, extras, moved) = lax.scan(step, (state.envs, state.memory), keys)
    envs, memory = carry
    batch = Batch(
        obs,
        action,
        moved.reward,
        moved.next_obs,
        moved.terminated,
        moved.truncated,
        extras,
        phase_mask,
        state.memory,
    )
    after = _episode_means(state._replace(envs=envs, memory=memory), moved, shards)
    return after, batch, _metrics(after, moved, shards)


def _episode_means(state: RolloutState, moved: Transition, shards: Shards) -> RolloutState:
    """Means over the episodes that ended; the last ones stay where none did."""
    ended = shards.sum((moved.terminated | moved.truncated).sum())
    count = jnp.maximum(ended, 1)
    ret, length = shards.sum((moved.ended_return.sum(), moved.ended_length.sum()))
    return state._replace(
        episode_return=jnp.where(ended > 0, ret / count, state.episode_return),
        episode_length=jnp.where(ended > 0, length / count, state.episode_length),
    )


def _metrics(state: RolloutState, moved: Transition, shards: Shards) -> Metrics:
    counts = {
        "episodes_ended": (moved.terminated | moved.truncated).sum(),
        "nonfinite_envs": moved.nonfinite.sum(),
        **{name: lost.sum() for name, lost in moved.overflows.items()},
    }
    means = {"reward/total": moved.reward.mean()}
    means |= {f"reward/{name}": value.mean() for name, value in moved.rewards.items()}
    means |= {name: value.mean() for name, value in moved.diagnostics.items()}
    episodes = {"episode_return": state.episode_return, "episode_length": state.episode_length}
    return episodes | shards.sum(counts) | shards.mean(means)
