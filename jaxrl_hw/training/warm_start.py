"""Warm starts: what a fresh train state knows before its first iteration."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.algos.networks.normalize import RunningStats
from jaxrl_hw.algos.optimizer import restarted
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.policies.from_state import params_of, stats_of
from jaxrl_hw.policies.portable import PortablePolicy
from jaxrl_hw.types import Algorithm, Learner, TrainState

MIN_STD = 0.2
"""Least action noise that a policy starts with where its value network is new. A policy that was
trained to its end hardly explores, and a value network learns little from actions all alike."""
REMEMBERED_BATCHES = 1000
"""Observation statistics that are taken over count for at most this many of the run's own batches.
With the weight of millions of observations they would never follow a robot that moves otherwise.
With 50 batches they follow at once, and the policy loses its tracking to that alone (g1_12dof:
0.052 to 0.071 m/s in 120 iterations in which none of its weights moved)."""


class Source(NamedTuple):
    """A trained policy that a run starts from."""

    policy: PortablePolicy
    state: TrainState | None
    """That the policy is of, where its value network fits the run's; None: that stays new."""

    @property
    def log_std(self) -> Array:
        """Of the action noise to start with [A]."""
        log_std = jnp.array(self.policy.log_std, jnp.float32)
        return log_std if self.state is not None else jnp.maximum(log_std, jnp.log(MIN_STD))


Clone = Callable[[Learner, Array], Learner]
"""A learner and a key -> the learner with its policy fitted to a motion."""


def motion_clone(env: Env, algorithm: Algorithm) -> Clone | None:
    """Behaviour cloning of the task's motion, jitted; None where there is none, or the algorithm's
    settings want none."""
    clone, motion = algorithm.clone, env.motion_prior
    if clone is None or motion is None:
        return None
    return jax.jit(lambda learner, key: clone(learner, motion(), key))


def warm_start(
    state: TrainState, clone: Clone | None, key: Array, source: Source | None, batch: int
) -> TrainState:
    """A fresh state with a policy that knows something.

    With a source the network, its observation statistics and the action noise are the source's; so
    are the value network and its statistics where they fit. Without one the network is fitted to
    the task's motion, where there is a `clone`.

    Args:
      state: fresh; its optimizer's moments, environments, key and counters stay.
      clone: from `motion_clone`.
      key: the one that `algorithm.init` got.
      source: of the same form as the state's networks (`init_from.open_source`).
      batch: samples of an iteration.
    """
    if source is not None:
        return _taken_over(state, source, REMEMBERED_BATCHES * batch)
    return state if clone is None else state._replace(**clone(state.learner, key)._asdict())


def _taken_over(state: TrainState, source: Source, most: int) -> TrainState:
    """The state with the source's networks; statistics count for `most` observations at most."""
    policy, origin = source
    params = state.params._replace(policy=params_of(policy), log_std=source.log_std)
    stats = state.obs_stats._replace(policy=_limited(stats_of(policy), most))
    if origin is not None:
        params = params._replace(value=origin.params.value)
        stats = stats._replace(critic=_limited(origin.obs_stats.critic, most))
    opt_state = restarted(state.opt_state, params.policy)
    return state._replace(params=params, opt_state=opt_state, obs_stats=stats)


def _limited(stats: RunningStats, most: int) -> RunningStats:
    return stats._replace(seen=jnp.minimum(jnp.float32(stats.seen), jnp.float32(most)))
