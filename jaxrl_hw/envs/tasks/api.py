"""What a task is: three pure functions around a physics step, written for one environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from jax import Array

from jaxrl_hw.envs.physics.api import ModelParams, PhysState
from jaxrl_hw.types import Observation, PhaseMask, Symmetry


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


class Task(NamedTuple):
    """A task for one robot model.

    reset(key) -> Start
    control(task_state, action [A]) -> ctrl [nu]
    outcome(task_state, params, physics, sensordata, action, key) -> Outcome

    Tasks read qpos, qvel, time and sensordata only, so both engines feed the same code. Each key is
    consumed.
    """

    name: str
    obs_size: int
    critic_size: int
    action_size: int
    episode_steps: int  # time limit of an episode, control steps
    fields: tuple[str, ...]  # MjModel arrays that reset() randomizes
    symmetry: Symmetry | None
    reset: Callable[[Array], Start]
    control: Callable[[Any, Array], Array]
    outcome: Callable[[Any, ModelParams, PhysState, Array, Array, Array], Outcome]
    motion_prior: Callable[[], Callable[[Array], tuple[Array, Array]]] | None = None
    """Makes key -> (normalized policy observation [O], action [A]): samples of a motion that a
    policy may be fitted to before it learns."""
    pause: PhaseMask | None = None
    """What a policy is not to look at while it is told to stand still."""
    at: Callable[[Array], Task] | None = None
    """The task as it is in an iteration int32 [] of a run, for one that changes over it; all but
    its functions stays. The task itself is as at the start."""
    stagger: bool = False
    """Start a run's first episodes somewhere along the time limit. For tasks that end by the time
    limit alone: their environments would all end in the same iteration. Where falls end episodes
    too, these soon set the clocks apart."""
