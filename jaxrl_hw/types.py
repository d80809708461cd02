"""The values that flow between the rooms: one train state, one batch, plain metrics.

Axis names used in every docstring:

    T  control steps collected per iteration        (Needs.unroll)
    N  environments stepped side by side            (Config.num_envs)
    A  actions, O  policy observation entries, C  critic observation entries
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # policy files and plans are read before jax is loaded, runs without numpy
    import numpy as np
    from jax import Array

MILLION = 1_000_000
"""Env steps are counted as whole millions and the rest: exact past 2**32."""
DEVICES = "env"  # the axis of `jax.shard_map` over which environments lie on several devices

Metrics = dict[str, Any]
"""Scalars of one iteration by name; the same names in every iteration of a run."""

Motion = Callable[["Array"], tuple["Array", "Array"]]
"""key -> (normalized policy observation [O], action [A]): a sample of a motion that a policy may be
fitted to before it learns (behaviour cloning)."""


class Observation(NamedTuple):
    """What the two networks see of one moment.

    The policy's part can be measured on a robot. The critic's part begins with the same entries,
    exact, adds what only a simulator knows, and is never exported.
    """

    policy: Array  # [..., O]
    critic: Array  # [..., C]


class Batch(NamedTuple):
    """One iteration's experience, time first.

    `next_obs` is what followed the action *before* any reset: at the end of an episode it is the
    true final observation, from which a truncated episode bootstraps. Observations are as the
    environments gave them; what a policy does to its inputs is its own.
    """

    obs: Observation  # [T, N, ...]
    action: Array  # [T, N, A]
    reward: Array  # [T, N]
    next_obs: Observation  # [T, N, ...]
    terminated: Array  # [T, N] bool: the episode ended in a state of no future value
    truncated: Array  # [T, N] bool: a time limit cut the episode, its future still counts
    extras: dict[str, Array]  # [T, N, ...] what the algorithm's act() recorded
    phase_mask: PhaseMask | None = None  # the one that the policy acted with
    memory: Any = ()  # [N, ...] what the policy remembered at the start
    env_steps: Array | None = None  # uint32 [2]: done before this batch, as in `TrainState`


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


class Sizes(NamedTuple):
    """What planning knows of an environment before one is made."""

    obs: int  # entries of the policy's observation
    critic: int  # entries of the critic's
    action: int  # entries of an action
    has_symmetry: bool  # the robot has a mirror image


class Needs(NamedTuple):
    """What an algorithm needs of memory and of the batch; bytes unless told otherwise."""

    unroll: int  # control steps collected from every environment per iteration
    epochs: int  # passes over the batch per iteration
    minibatch_size: int  # samples of a minibatch, about
    network_bytes: int = 0  # all parameters
    optimizer_bytes: int = 0  # moments and averages
    normalizer_bytes: int = 0  # observation statistics
    replay_bytes: int = 0  # a replay buffer, whatever the number of environments
    sample_bytes: int = 0  # one sample of the batch
    memory_bytes: int = 0  # what the policy remembers of one environment
    update_bytes: int = 0  # activations and gradients of a minibatch
    value_bytes: int = 0  # activations of one sample while the critic values the whole batch

    def minibatches(self, samples: int) -> int:
        """Minibatches per pass over so many samples, of about `minibatch_size` each."""
        return max(1, round(samples / self.minibatch_size))


class Shards(NamedTuple):
    """The equal parts of a batch, and what a function of one part reduces over all of them."""

    number: int = 1
    axes: tuple[str, ...] = ()  # of `jax.vmap` and `jax.shard_map`; none for one part

    def sum(self, tree: Any) -> Any:
        import jax

        return jax.lax.psum(tree, self.axes) if self.axes else tree

    def mean(self, tree: Any) -> Any:
        import jax

        return jax.lax.pmean(tree, self.axes) if self.axes else tree


WHOLE = Shards()


class EnvSpec(NamedTuple):
    """What an algorithm is made for."""

    obs_size: int  # O
    critic_size: int  # C
    action_size: int  # A
    symmetry: Symmetry | None = None
    ahead_size: int = 0
    """Entries of the critic's that tell what is to come, right after the policy's."""

    @property
    def unseen(self) -> int:
        """Entries, the last ones, that the critic sees and the policy could estimate."""
        return max(self.critic_size - self.ahead_size - self.obs_size, 0)


class Algorithm(NamedTuple):
    """A learning algorithm as pure functions over a `Learner`.

    init(key) -> Learner
    act(learner, obs, key, phase_mask=None, memory=()) ->
        (action [N, A], extras dict of [N, ...], memory)
    update(learner, batch, key, shards=WHOLE) -> (Learner, Metrics), the same of all shards' batches
    policy(learner, policy_obs [..., O], phase_mask=None, memory=()) -> (action [..., A], memory),
        without exploration

    Where memory is (), an episode begins.
    """

    name: str
    needs: Needs
    init: Any
    act: Any
    update: Any
    policy: Any
    critic_warmup: int = 0
    """Env steps at the start in which only the critic learns."""
    clone: Callable[[Learner, Motion, Array], Learner] | None = None
    """(fresh learner, motion, init's key) -> it, with its policy fitted to the motion; or None."""
    start: Callable[[int], Any] = lambda count: ()
    """Number of environments -> what the policy remembers at an episode's start: zeros, leaves
    [N, ...], or () where it has no memory."""

    slowed: Callable[[Learner], Learner] = lambda learner: learner
    """With half of the rate that it has come to; itself where the rate is a setting alone."""

    @property
    def unroll(self) -> int:
        """T, control steps per iteration."""
        return self.needs.unroll


class Policy(NamedTuple):
    """A trained policy to be driven, without exploration noise.

    start(count) -> what it remembers at the start of so many episodes: leaves [count, ...], all 0;
        () for a policy without a memory
    step(obs [N, O], memory) -> (action [N, A], memory)
    """

    start: Callable[[int], Any]
    step: Callable[[Any, Any], tuple[Any, Any]]

    def __call__(self, obs: Any) -> Any:
        """Actions [..., A] of observations [..., O], arrays, each the first of an episode."""
        rows = obs.reshape(-1, obs.shape[-1])
        action, _ = self.step(rows, self.start(len(rows)))
        return action.reshape(*obs.shape[:-1], -1)


def to_policy(policy: Any) -> Policy:
    """Anything that is driven as a `Policy`: one with its methods, or a function of observations,
    which has no memory."""
    if hasattr(policy, "step"):
        return Policy(policy.start, policy.step)
    return Policy(lambda count: (), lambda obs, memory: (policy(obs), memory))


def forget(memory: Any, ended: Any) -> Any:
    """A policy's memory, leaves [N, ...], that is 0 where an episode has ended, bool [N]."""
    import jax
    import jax.numpy as jnp

    def clear(x: Any) -> Any:
        return jnp.where(ended.reshape(-1, *(1,) * (x.ndim - 1)), 0.0, x)

    return jax.tree.map(clear, memory)


class SignedPermutation(NamedTuple):
    """A linear map with one entry of +-1 per row: mirrored[i] = sign[i] * x[perm[i]]."""

    perm: np.ndarray  # int [D]
    sign: np.ndarray  # float [D]

    def __call__(self, x: Array) -> Array:
        """[..., D] -> [..., D]."""
        return x[..., self.perm] * self.sign.astype(x.dtype)


class Symmetry(NamedTuple):
    """How a mirror image of the robot sees and acts."""

    policy: SignedPermutation
    critic: SignedPermutation
    action: SignedPermutation

    def observation(self, obs: Observation) -> Observation:
        return Observation(self.policy(obs.policy), self.critic(obs.critic))


class PhaseMask(NamedTuple):
    """Scales down the gait phase that the policy sees while the robot is to stand and does.

    A phase that runs on while the robot stands makes it step in place: a network can hardly tell
    "exactly no command" from "slowly", and tells a smaller phase easily. The mask is part of the
    policy, as normalization is; observations stay as they are.
    """

    motion: Any  # [O, K]: all entries of obs @ motion are within +-1 while the robot stands
    clock: Any  # [O]: the share taken from the phase entries, 0 for all others

    def __call__(self, obs: Array) -> Array:
        """[..., O] -> [..., O]."""
        calm = abs(obs @ self.motion).max(axis=-1, keepdims=True) < 1.0
        return obs * (1.0 - self.clock * calm)


def no_phase_mask(size: int) -> PhaseMask:
    """A mask that leaves observations [..., size] as they are."""
    import numpy as np

    return PhaseMask(np.zeros((size, 1), np.float32), np.zeros(size, np.float32))


def setting(
    default: Any,
    *,
    unit: str = "",
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    resume: bool = False,
    stage: bool = False,
    driven: Any = None,
) -> Any:
    """A field of a settings class, with what is to be known of it beside its default.

    A field's choices are its type (`Literal`). Its help is the docstring below it. A number must be
    finite, and a `tuple[float, float]` is a range, low first.

    Args:
      default: a value, or a settings class that makes a group of settings.
      unit: of the number, such as "m/s"; one of "env steps" may be written 4.9M.
      at_least, above, at_most: bounds of a number, or of every number of a tuple.
      resume: whether the setting may change when a run is continued.
      stage: whether a stage of the curriculum may change it.
      driven: its value where a policy is only driven (evaluation, films); None for the run's own.
    """
    about = {"unit": unit, "at_least": at_least, "above": above, "at_most": at_most}
    metadata = {**about, "resume": resume, "stage": stage, "driven": driven}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
