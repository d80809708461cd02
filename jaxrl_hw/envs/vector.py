"""Environments side by side: a task and an engine, vmapped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax import Array

from jaxrl_hw.envs import episode
from jaxrl_hw.envs.episode import EnvState, Transition
from jaxrl_hw.envs.physics.api import Physics
from jaxrl_hw.envs.tasks.api import Task
from jaxrl_hw.types import PhaseMask, Symmetry


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
    motion_prior: Callable[[], Callable[[Array], tuple[Array, Array]]] | None = None
    pause: PhaseMask | None = None  # applied to what the policy sees and learns from
    host_bytes: int = 0  # what the engine keeps outside JAX
    at: Callable[[Array], Env] | None = None
    """The environments as they are in an iteration int32 [] of a run, where the task changes over
    it; these here are as at the start."""


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
        task.motion_prior,
        task.pause,
        physics.host_bytes[0] + num_envs * physics.host_bytes[1],
        None if at is None else lambda iteration: make_vector_env(at(iteration), physics, num_envs),
    )


def env_at(env: Env, iteration: Array | None) -> Env:
    """The environments as they are in an iteration int32 [] of a run; None: as at its start."""
    return env if env.at is None or iteration is None else env.at(iteration)


def make_key(seed: int) -> Array:
    """The run's random key.

    Of the RngBitGenerator kind: its numbers are made by the device's own generator for all
    environments at once. With threefry keys the hash is spelled out around every draw, which
    costs twice the compile time and a tenth of the collection time on a CPU. ("unsafe" is JAX's
    word for key splitting that has not been studied as well as threefry's.)
    """
    return jax.random.key(seed, impl="unsafe_rbg")
