"""Episodes: time limits, automatic reset, and the true final observation."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.envs.physics.api import ModelParams, Physics, PhysState, is_finite
from jaxrl_hw.envs.tasks.api import Task, TaskParams
from jaxrl_hw.types import Observation


class EnvState(NamedTuple):
    """One environment between two control steps; a few hundred numbers."""

    physics: PhysState
    params: ModelParams
    task: Any
    obs: Observation  # what the next action answers to
    steps: Array  # int32 [], towards the time limit
    length: Array  # int32 [], steps since the reset
    ret: Array  # float32 [], undiscounted return since the reset


class Transition(NamedTuple):
    """What one control step gave; `next_obs` is from before any reset."""

    reward: Array
    next_obs: Observation
    terminated: Array  # bool []
    truncated: Array  # bool []
    nonfinite: Array  # bool []: physics diverged; counted as a termination without reward
    ended_return: Array  # return of the episode that ended here, else 0
    ended_length: Array  # its length in control steps, else 0
    rewards: dict[str, Array]
    diagnostics: dict[str, Array]
    overflows: dict[str, Array]  # bool []: see `Physics.watched`


def reset(task: Task, task_params: TaskParams, key: Array) -> EnvState:
    """A fresh episode. Consumes key."""
    start, zero = task.reset(task_params, key), jnp.zeros((), jnp.int32)
    return EnvState(start.physics, start.params, start.task, start.obs, zero, zero, jnp.zeros(()))


def stagger(task: Task, state: EnvState, key: Array) -> EnvState:
    """Start an episode's clock somewhere along the time limit, where the task asks for it.

    Consumes key.
    """
    if not task.stagger:
        return state
    return state._replace(steps=jax.random.randint(key, (), 0, task.episode_steps))


def step(
    task: Task,
    physics: Physics,
    task_params: TaskParams,
    state: EnvState,
    action: Array,
    key: Array,
    fresh: EnvState | None = None,
) -> tuple[EnvState, Transition]:
    """Advance one environment by one control step with an action [A], resetting it if its episode
    ended. Consumes key.

    fresh: the episode that follows, from `reset`; None draws it with the key.
    """
    if fresh is None:
        key, key_reset = jax.random.split(key)
        fresh = reset(task, task_params, key_reset)
    ctrl = task.control(task_params, state.task, action)
    with jax.named_scope("physics"):
        stepped, sensordata, overflows = physics.watched_step(state.params, state.physics, ctrl)
    finite = is_finite(stepped, sensordata)
    out = task.outcome(task_params, state.task, state.params, stepped, sensordata, action, key)
    steps = state.steps + 1
    terminated = out.terminated | ~finite
    truncated = ~terminated & (steps >= task.episode_steps)
    done = terminated | truncated
    rewards = {name: jnp.where(finite, value, 0.0) for name, value in out.rewards.items()}
    reward = sum(rewards.values(), jnp.zeros(()))
    ret, length = state.ret + reward, state.length + 1

    going_on = EnvState(out.physics, state.params, out.task, out.obs, steps, length, ret)
    after = jax.tree.map(lambda new, old: jnp.where(done, new, old), fresh, going_on)
    return after, Transition(
        reward=reward,
        next_obs=jax.tree.map(lambda x, ok: jnp.where(finite, x, ok), out.obs, fresh.obs),
        terminated=terminated,
        truncated=truncated,
        nonfinite=~finite,
        ended_return=jnp.where(done, ret, 0.0),
        ended_length=jnp.where(done, length, 0),
        rewards=rewards,
        diagnostics={k: jnp.where(finite, v, 0.0) for k, v in out.diagnostics.items()},
        overflows=overflows,
    )
