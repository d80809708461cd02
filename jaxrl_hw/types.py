"""The values that flow between the rooms: one train state, one batch, plain metrics.

Axis names used in every docstring:

    T  control steps collected per iteration        (Config.ppo.unroll)
    N  environments stepped side by side            (Config.num_envs)
    A  actions, O  policy observation entries, C  critic observation entries
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jax import Array

Metrics = dict[str, Array]
"""Scalars of one iteration by name; the same names in every iteration of a run."""


class Observation(NamedTuple):
    """What the two networks see of one moment.

    The policy's part can be measured on a robot; the critic's part adds what only a simulator
    knows and is never exported.
    """

    policy: Array  # [..., O]
    critic: Array  # [..., C]


class Batch(NamedTuple):
    """One iteration's experience, time first.

    `next_obs` is what followed the action *before* any reset: at the end of an episode it is the
    true final observation, from which a truncated episode bootstraps. `obs` is what the policy saw,
    after a pause where the task has one; `next_obs` is as it was observed.
    """

    obs: Observation  # [T, N, ...]
    action: Array  # [T, N, A]
    reward: Array  # [T, N]
    next_obs: Observation  # [T, N, ...]
    terminated: Array  # [T, N] bool: the episode ended in a state of no future value
    truncated: Array  # [T, N] bool: a time limit cut the episode, its future still counts
    extras: dict[str, Array]  # [T, N, ...] what the algorithm's act() recorded


class Learner(NamedTuple):
    """All that an algorithm learns and remembers."""

    params: Any
    opt_state: Any
    obs_stats: Any


class TrainState(NamedTuple):
    """The whole truth of a run: saving it and loading it continues the run exactly."""

    params: Any  # network parameters
    opt_state: Any  # optimizer moments and the current learning rate
    obs_stats: Any  # running observation statistics
    env_state: Any  # rollout.RolloutState: every environment, and the last episode means
    key: Array  # typed random key, consumed once per iteration
    iteration: Array  # int32 [], iterations done
    env_steps: Array  # uint32 [2]: control steps done, as whole millions and the rest

    @property
    def learner(self) -> Learner:
        return Learner(self.params, self.opt_state, self.obs_stats)


class Algorithm(NamedTuple):
    """A learning algorithm as pure functions over a `Learner`.

    init(key) -> Learner
    act(learner, obs, key) -> (action [N, A], extras dict of [N, ...])
    update(learner, batch, key) -> (Learner, Metrics)
    policy(learner, policy_obs [..., O]) -> action [..., A], without exploration noise
    """

    name: str
    unroll: int  # T, control steps per iteration
    init: Any
    act: Any
    update: Any
    policy: Any
