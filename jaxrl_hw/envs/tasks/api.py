"""What a task is: three pure functions around a physics step, written for one environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
from jax import Array

from jaxrl_hw.envs.physics.api import ModelParams, PhysState
from jaxrl_hw.types import Motion, Observation, PhaseMask, Symmetry


class Start(NamedTuple):
    """A fresh episode."""

    physics: PhysState
    params: ModelParams  # this episode's own model values (randomization)
    task: Any  # the task's own state, a NamedTuple of arrays
    obs: Observation


class Outcome(NamedTuple):
    """What a control step led to."""

    physics: PhysState  # as stepped, but for what the task itself changes (a push)
    task: Any
    obs: Observation
    rewards: dict[str, Array]  # weighted terms, [] each; their sum is the reward
    terminated: Array  # bool []
    diagnostics: dict[str, Array]  # figures for people, [] each; no reward


TaskParams = Any
"""What may differ between environments, over a run, or between training and evaluation: command
ranges, reward weights, noise, pushes, randomization ranges. A pytree of numbers or arrays."""


class Task(NamedTuple):
    """A task for one robot model.

    reset(task_params, key) -> Start
    control(task_params, task_state, action [A]) -> ctrl [nu]
    outcome(task_params, task_state, params, physics, sensordata, action, key) -> Outcome

    Tasks read qpos, qvel, time and sensordata only, so both engines feed the same code. Each key is
    consumed. A task that says how many random `numbers` it takes is given these in place of a key
    (`uniform` takes either): those of all environments are then drawn in one block.
    """

    name: str
    obs_size: int
    critic_size: int
    action_size: int
    episode_steps: int  # time limit of an episode, control steps
    fields: tuple[str, ...]  # MjModel arrays that reset() randomizes
    symmetry: Symmetry | None
    reset: Callable[[TaskParams, Array], Start]
    control: Callable[[TaskParams, Any, Array], Array]
    outcome: Callable[[TaskParams, Any, ModelParams, PhysState, Array, Array, Array], Outcome]
    ahead_size: int = 0
    """Entries of the critic's observation that tell what is to come, right after those that the
    policy has too: a policy cannot learn to estimate them."""
    params: TaskParams = ()
    """Those of the settings that the task was made with."""
    params_of: Callable[[Any], TaskParams] = lambda settings: ()
    """settings -> TaskParams, for the stages of a curriculum and for evaluation."""
    reward_weights: Callable[[TaskParams], Mapping[str, Any]] | None = None
    """TaskParams -> weight of each reward term: a term whose weight is 0 in every stage is left
    out. None: all terms count."""
    phase_mask: Callable[[TaskParams], PhaseMask] | None = None
    """TaskParams -> what the policy sees less of while the robot stands."""
    motion_prior: Callable[[], Motion] | None = None
    """Makes the motion that a policy may start from."""
    late: bool = False
    """Actions come late: control() gives a ctrl of `physics.api.late_ctrl`'s form."""
    with_parts: Callable[[Sequence[TaskParams] | None], Task] | None = None
    """The same task with all that some of these parameters need and with nothing else, for the
    stages of a curriculum; None: with all that there is. A task without it has it all always."""
    action_limit: Any = None
    """[A], how far each entry of an action can usefully go from 0: where the joint's range ends;
    None for 1 everywhere."""
    numbers: tuple[int, int] = (0, 0)
    """Uniform random numbers that reset() and outcome() take; 0 where it takes a key."""
    stagger: bool = False
    """Start a run's first episodes somewhere along the time limit. For tasks that end by the time
    limit alone: their environments would all end in the same iteration. Where falls end episodes
    too, these soon set the clocks apart."""


def draw(key: Array, count: int, size: int) -> Array:
    """Randomness for `count` environments: uniform numbers in [0, 1) [count, size]; of size 0 a key
    for each. Consumes key."""
    return jax.random.uniform(key, (count, size)) if size else jax.random.split(key, count)


def uniform(random: Array, size: int) -> Array:
    """Uniform numbers in [0, 1) [size]: from a key, which is consumed, or those drawn before."""
    is_key = jax.numpy.issubdtype(random.dtype, jax.dtypes.prng_key)
    return jax.random.uniform(random, (size,)) if is_key else random
