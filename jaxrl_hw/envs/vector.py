"""Environments side by side: a task and an engine, vmapped, and the stages of a curriculum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs import episode
from jaxrl_hw.envs.episode import EnvState, Transition
from jaxrl_hw.envs.physics.api import Physics
from jaxrl_hw.envs.tasks.api import Task, TaskParams, draw
from jaxrl_hw.types import MILLION, EnvSpec, Motion, PhaseMask, Symmetry


class Env(NamedTuple):
    """N environments of one task on one engine, as pure functions.

    reset(key, task_params=None) -> EnvState, every leaf [N, ...]
    step(state, action [N, A], key, task_params=None) -> (EnvState, Transition), leaves [N, ...]

    Without task_params those of the run's start hold. step takes any number of environments, so
    that each device may step its own. A `VectorStep` can be given the episodes that follow.
    """

    name: str
    engine: str
    num_envs: int
    obs_size: int
    critic_size: int
    action_size: int
    control_dt: float  # s
    symmetry: Symmetry | None
    reset: Callable[..., Any]
    step: Callable[..., tuple[Any, Transition]]
    params_at: Callable[[Array], TaskParams] = lambda env_steps: None
    """env_steps uint32 [2] (whole millions, rest) -> the task parameters of that point of a run"""
    phase_mask: Callable[[TaskParams], PhaseMask | None] = lambda task_params: None
    motion_prior: Callable[[], Motion] | None = None
    host_bytes: int = 0  # what the engine keeps outside JAX
    ahead_size: int = 0  # see `Task`
    action_limit: Any = None  # see `Task`
    action_set: Any = None  # the discrete actions [K, A]; None where they are continuous
    host_bytes_each: int = 0  # of `host_bytes`, what each environment takes

    @property
    def spec(self) -> EnvSpec:
        """What an algorithm is made for."""
        return spec_of(self, self.action_set)


class VectorStep:
    """Steps environments of a task on an engine side by side: `Env.step`.

    An environment whose episode ends goes on as its entry of `following`, from `fresh`; without it
    they are drawn anew at every step.
    """

    def __init__(self, task: Task, physics: Physics, first: TaskParams) -> None:
        self._task, self._physics, self._first = task, physics, first

    def fresh(self, key: Array, count: int, task_params: TaskParams = None) -> EnvState:
        """So many fresh episodes, leaves [count, ...]. Consumes key."""
        params = self._first if task_params is None else task_params
        one = jax.vmap(lambda k: episode.reset(self._task, params, k))
        started: EnvState = one(draw(key, count, self._task.numbers[0]))
        return started

    def __call__(
        self,
        state: EnvState,
        action: Array,
        key: Array,
        task_params: TaskParams = None,
        following: EnvState | None = None,
    ) -> tuple[EnvState, Transition]:
        task, physics, count = self._task, self._physics, len(action)
        params = self._first if task_params is None else task_params
        if following is None:
            key, key_fresh = jax.random.split(key)
            following = self.fresh(key_fresh, count, task_params)
        one = jax.vmap(lambda s, a, k, f: episode.step(task, physics, params, s, a, k, f))
        return one(state, action, draw(key, count, task.numbers[1]), following)


def spec_of(of: Env | Task, action_set: Any = None) -> EnvSpec:
    """What an algorithm for environments, or for a task, is made for.

    action_set: the discrete actions [K, A]; None where they are continuous.
    """
    sizes = of.obs_size, of.critic_size, of.action_size
    has_motion = of.motion_prior is not None
    return EnvSpec(*sizes, of.symmetry, of.ahead_size, of.action_limit, action_set, has_motion)


def make_vector_env(
    task: Task,
    physics: Physics,
    num_envs: int,
    stages: Sequence[tuple[int, TaskParams]] = (),
) -> Env:
    """num_envs environments of a task on an engine.

    stages: (env step from which they hold, task parameters), rising; none for `task.params`
        throughout a run.
    """
    stages = tuple(stages) or ((0, task.params),)
    task = _without_idle_terms(task, [params for _, params in stages])
    masks = [task.phase_mask(p) for _, p in stages] if task.phase_mask else []
    masked = any(np.any(mask.clock) for mask in masks)
    first = stages[0][1]
    step = VectorStep(task, physics, first)

    def reset(key: Array, task_params: TaskParams = None) -> EnvState:
        key_reset, key_stagger = jax.random.split(key)
        state = step.fresh(key_reset, num_envs, task_params)
        stagger = jax.vmap(lambda s, k: episode.stagger(task, s, k))
        return stagger(state, jax.random.split(key_stagger, num_envs))

    def phase_mask(task_params: TaskParams) -> PhaseMask | None:
        if task.phase_mask is None or not masked:
            return None
        return task.phase_mask(first if task_params is None else task_params)

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
        lambda env_steps: params_at(stages, env_steps),
        phase_mask,
        task.motion_prior,
        physics.host_bytes[0] + num_envs * physics.host_bytes[1],
        task.ahead_size,
        task.action_limit,
        host_bytes_each=physics.host_bytes[1],
    )


def params_at(stages: Sequence[tuple[int, TaskParams]], env_steps: Array) -> TaskParams:
    """The task parameters that hold after env_steps uint32 [2], whole millions and the rest.

    A leaf that no stage changes stays the number it is, so that the compiler sees a constant. Where
    the counter is known NumPy computes them: JAX would compile a program for each operation.
    """
    known = not isinstance(env_steps, jax.core.Tracer)
    xp: Any = np if known else jnp
    counter = np.asarray(env_steps) if known else env_steps
    millions, rest = counter[0], counter[1]
    begun = [
        (millions > at // MILLION) | ((millions == at // MILLION) & (rest >= at % MILLION))
        for at, _ in stages[1:]
    ]
    stage = sum((b.astype(xp.int32) for b in begun), xp.zeros((), xp.int32))

    def pick(*values: Any) -> Any:
        if all(value == values[0] for value in values):
            return values[0]
        return xp.asarray(values, xp.float32)[stage]

    return jax.tree.map(pick, *[params for _, params in stages])


def _without_idle_terms(task: Task, stages: Sequence[TaskParams]) -> Task:
    """The task without the reward terms whose weight is 0 in every stage."""
    if task.reward_weights is None:
        return task
    weights = [task.reward_weights(params) for params in stages]
    idle = {name for name in weights[0] if not any(each[name] for each in weights)}

    def outcome(*args: Any) -> Any:
        out = task.outcome(*args)
        rewards = {name: value for name, value in out.rewards.items() if name not in idle}
        return out._replace(rewards=rewards)

    return task._replace(outcome=outcome)


def make_key(seed: int) -> Array:
    """The run's random key.

    Of the threefry kind: a number follows from its key alone, whatever it is drawn together with
    and on whichever device. (Its hash is spelled out around every draw: draw much at once.)

    It is `jax.random.key` of the seed's last 32 bits, but JAX would compile a program for it.
    """
    words = np.array([0, seed & 0xFFFFFFFF], np.uint32)
    return jax.random.wrap_key_data(jax.device_put(words), impl="threefry2x32")


def rekeyed(key: Array) -> Array:
    """A key of the run's kind that follows from one of any kind. Consumes key."""
    words = jax.random.bits(key, (2,), jnp.uint32)
    return jax.random.wrap_key_data(jax.device_put(words), impl="threefry2x32")
