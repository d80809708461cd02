"""Environments side by side, and the collection of experience from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from jaxrl_hw.envs import episode
from jaxrl_hw.envs.api import Task
from jaxrl_hw.envs.episode import EnvState, Transition
from jaxrl_hw.pause import Pause
from jaxrl_hw.physics.api import Physics
from jaxrl_hw.symmetry import Symmetry
from jaxrl_hw.types import Algorithm, Batch, Learner, Metrics


class Env(NamedTuple):
    """N environments of one task on one engine, as pure functions.

    reset(key) -> EnvState, every leaf [N, ...]
    step(state, action [N, A], key) -> (EnvState, Transition), every leaf [N, ...]
    """

    name: str
    engine: str
    num_envs: int
    obs_size: int
    critic_size: int
    action_size: int
    control_dt: float  # s
    symmetry: Symmetry | None
    reset: Callable[[Array], Any]
    step: Callable[[Any, Array, Array], tuple[Any, Transition]]
    guide: Callable[[], Callable[[Array], tuple[Array, Array]]] | None = None
    pause: Pause | None = None  # applied to what the policy sees and learns from
    host_bytes: int = 0  # what the engine keeps outside JAX
    at: Callable[[Array], Env] | None = None
    """The environments as they are in an iteration int32 [] of a run, where the task changes over
    it; these here are as at the start."""


class RolloutState(NamedTuple):
    """Every environment, and what the metrics carry from one iteration to the next."""

    envs: Any  # [N, ...]
    episode_return: Array  # [] mean of the last iteration in which episodes ended; NaN before
    episode_length: Array  # [] control steps, likewise


def make_vector_env(task: Task, physics: Physics, num_envs: int) -> Env:
    """num_envs environments of a task on an engine."""

    def reset(key: Array) -> EnvState:
        key_reset, key_stagger = jax.random.split(key)
        state = jax.vmap(lambda k: episode.reset(task, k))(jax.random.split(key_reset, num_envs))
        stagger = jax.vmap(lambda s, k: episode.stagger(task, s, k))
        return stagger(state, jax.random.split(key_stagger, num_envs))

    def step(state: EnvState, action: Array, key: Array) -> tuple[EnvState, Transition]:
        one = jax.vmap(lambda s, a, k: episode.step(task, physics, s, a, k))
        return one(state, action, jax.random.split(key, num_envs))

    at = task.at
    return Env(
        task.name,
        physics.engine,
        num_envs,
        task.obs_size,
        task.critic_size,
        task.action_size,
        physics.control_dt,
        task.symmetry,
        reset,
        step,
        task.guide,
        task.pause,
        physics.host_bytes[0] + num_envs * physics.host_bytes[1],
        None if at is None else lambda iteration: make_vector_env(at(iteration), physics, num_envs),
    )


def env_at(env: Env, iteration: Array | None) -> Env:
    """The environments as they are in an iteration int32 [] of a run; None: as at its start."""
    return env if env.at is None or iteration is None else env.at(iteration)


def init_rollout(env: Env, key: Array) -> RolloutState:
    """Fresh environments. Consumes key."""
    nothing = jnp.full((), jnp.nan, jnp.float32)
    return RolloutState(env.reset(key), nothing, nothing)


def collect(
    env: Env,
    algorithm: Algorithm,
    learner: Learner,
    state: RolloutState,
    key: Array,
    iteration: Array | None = None,
) -> tuple[RolloutState, Batch, Metrics]:
    """Act in every environment for `algorithm.unroll` control steps. Consumes key.

    iteration: int32 [], of the run; None: as at its start.
    """
    now = env_at(env, iteration)

    def step(envs: Any, key: Array) -> tuple[Any, Any]:
        key_act, key_step = jax.random.split(key)
        obs = envs.obs
        if now.pause is not None:
            obs = obs._replace(policy=now.pause(obs.policy))
        action, extras = algorithm.act(learner, obs, key_act)
        after, moved = now.step(envs, action, key_step)
        return after, (obs, action, extras, moved)

    keys = jax.random.split(key, algorithm.unroll)
    envs, (obs, action, extras, moved) = lax.scan(step, state.envs, keys)
    batch = Batch(
        obs, action, moved.reward, moved.next_obs, moved.terminated, moved.truncated, extras
    )
    after = _episode_means(state._replace(envs=envs), moved)
    return after, batch, _metrics(after, moved)


def _episode_means(state: RolloutState, moved: Transition) -> RolloutState:
    """Means over the episodes that ended; the last ones stay where none did."""
    ended = (moved.terminated | moved.truncated).sum()
    count = jnp.maximum(ended, 1)
    return state._replace(
        episode_return=jnp.where(ended > 0, moved.ended_return.sum() / count, state.episode_return),
        episode_length=jnp.where(ended > 0, moved.ended_length.sum() / count, state.episode_length),
    )


def _metrics(state: RolloutState, moved: Transition) -> Metrics:
    metrics = {
        "episode_return": state.episode_return,
        "episode_length": state.episode_length,
        "episodes_ended": (moved.terminated | moved.truncated).sum(),
        "nonfinite_envs": moved.nonfinite.sum(),
        "reward/total": moved.reward.mean(),
    }
    metrics |= {f"reward/{name}": value.mean() for name, value in moved.rewards.items()}
    return metrics | {name: value.mean() for name, value in moved.diagnostics.items()}
