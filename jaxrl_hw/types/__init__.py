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

from jaxrl_hw.types.observation import Observation as Observation
from jaxrl_hw.types.observation import PhaseMask as PhaseMask
from jaxrl_hw.types.observation import SignedPermutation as SignedPermutation
from jaxrl_hw.types.observation import Symmetry as Symmetry
from jaxrl_hw.types.observation import no_phase_mask as no_phase_mask
from jaxrl_hw.types.policy_parts import LINEAR as LINEAR
from jaxrl_hw.types.policy_parts import Head as Head
from jaxrl_hw.types.policy_parts import PolicyParts as PolicyParts

if TYPE_CHECKING:  # policy files and plans are read before jax is loaded
    from jax import Array

MILLION = 1_000_000
"""Env steps are counted as whole millions and the rest: exact past 2**32."""
DEVICES = "env"  # the axis of `jax.shard_map` over which environments lie on several devices

Metrics = dict[str, Any]
"""Scalars of one iteration by name; the same names in every iteration of a run."""

Motion = Callable[["Array"], tuple["Array", "Array"]]
"""key -> (normalized policy observation [O], action [A]): a sample of a motion that a policy may be
fitted to before it learns (behaviour cloning)."""


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
    replay: Any = ()  # past experience; () for an algorithm that learns from the batch alone


class TrainState(NamedTuple):
    """The whole truth of a run: saving it and loading it continues the run exactly."""

    params: Any  # network parameters
    opt_state: Any  # optimizer moments and the current learning rate
    obs_stats: Any  # running observation statistics
    env_state: Any  # rollout.RolloutState: every environment, and the last episode means
    key: Array  # typed random key, consumed once per iteration
    iteration: Array  # int32 [], iterations done
    env_steps: Array  # uint32 [2]: control steps done, as whole millions and the rest
    replay: Any = ()  # past experience, of an algorithm that learns from it

    @property
    def learner(self) -> Learner:
        return Learner(self.params, self.opt_state, self.obs_stats, self.replay)


class Sizes(NamedTuple):
    """What planning knows of an environment before one is made."""

    obs: int  # entries of the policy's observation
    critic: int  # entries of the critic's
    action: int  # entries of an action
    has_symmetry: bool  # the robot has a mirror image
    actions: int = 0  # of a discrete set; 0 for continuous ones


class ReplayNeeds(NamedTuple):
    """What a replay of past experience takes."""

    capacity: int  # transitions
    transition_bytes: int
    learning_starts: int  # transitions that it holds before the first gradient step
    span: int  # control steps in a row that a sample is made of

    @property
    def bytes(self) -> int:
        return self.capacity * self.transition_bytes


class Needs(NamedTuple):
    """What an algorithm needs of memory and of the batch; bytes unless told otherwise."""

    unroll: int  # control steps collected from every environment per iteration
    epochs: int  # passes over the batch per iteration; with a replay: gradient steps
    minibatch_size: int  # samples of a minibatch, about
    network_bytes: int = 0  # all parameters
    optimizer_bytes: int = 0  # moments and averages
    normalizer_bytes: int = 0  # observation statistics
    replay: ReplayNeeds | None = None  # whatever the number of environments
    sample_bytes: int = 0  # one sample of the batch
    memory_bytes: int = 0  # what the policy remembers of one environment
    update_bytes: int = 0  # activations and gradients of a minibatch
    value_bytes: int = 0  # activations of one sample while the critic values the whole batch
    symmetric: bool = False  # whether the networks treat a mirror image alike by construction
    networks: tuple[tuple[str, tuple[int, ...]], ...] = ()  # hidden widths by name
    parts: tuple[tuple[str, int], ...] = ()  # bytes of what the learner consists of, by name

    @property
    def replay_bytes(self) -> int:
        return self.replay.bytes if self.replay else 0

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
    action_limit: Any = None
    """Largest useful size of each action's entries [A], by the joints' limits; None for 1."""
    action_set: Any = None
    """The discrete actions [K, A]; None where actions are continuous."""
    has_motion: bool = False
    """Whether the task has an open-loop motion for a policy to start from."""

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
    replay: Callable[[int], Any] = lambda count: ()
    """Number of environments -> an empty replay; () for an algorithm without one."""
    parts: Callable[[Learner], PolicyParts] | None = None
    """What policy files are made of; None where there can be none."""

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
      unit: of the number, such as "m/s"; one of "env steps" or
        "transitions" may be written 4.9M.
      at_least: lower bound of a number, or of every number of a tuple.
      above: the same, itself not allowed.
      at_most: upper bound.
      resume: whether the setting may change when a run is continued.
      stage: whether a stage of the curriculum may change it.
      driven: its value where a policy is only driven (evaluation, films); None for the run's own.
    """
    about = {"unit": unit, "at_least": at_least, "above": above, "at_most": at_most}
    metadata = {**about, "resume": resume, "stage": stage, "driven": driven}
    if isinstance(default, type):
        return dataclasses.field(default_factory=default, metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)
