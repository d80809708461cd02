"""Past experience as a ring on the device: every observation is stored once.

What followed an action is the observation of the next slot. Where a time limit cut an episode, its
true final observation is stored apart, in a ring of its own; where an episode terminated, nobody
asks for it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.algos.replay_size import FINALS
from jaxrl_hw.types import Batch, Observation, ReplayNeeds


class Replay(NamedTuple):
    """The last `S` control steps of N environments; the next one is written at `head`."""

    obs: Observation  # [S, N, ...] what was acted on; of the policy's as it saw them
    action: Array  # [S, N, A]
    reward: Array  # [S, N]
    terminated: Array  # bool [S, N]
    cut: Array  # uint32 [S, N]: the number, from 1, of the final observation; 0 where none was cut
    finals: Observation  # [F, ...] final observations; number i lies at (i - 1) % F
    cuts: Array  # uint32 [], final observations so far
    head: Array  # int32 []
    filled: Array  # int32 [], slots that hold something


class Transitions(NamedTuple):
    """What one gradient step learns from."""

    seen: Array  # [B, O], or [B, K, O] with a history: the policy's input
    critic: Array  # [B, C]
    action: Array  # [B, A]
    reward: Array  # [B] discounted sum over the steps taken together
    discount: Array  # [B] of what follows them; 0 where the episode terminated
    next_seen: Array  # as seen
    next_critic: Array  # [B, C]
    weight: Array  # [B] 1, or 0 where the final observation is lost


def empty(needs: ReplayNeeds, envs: int, obs: Observation, action: Array, dtype: str) -> Replay:
    """A replay for so many environments that holds nothing.

    obs, action: one of each, for their sizes and the action's dtype.
    """
    slots, finals = max(1, needs.capacity // envs), max(1, needs.capacity // FINALS)

    def zeros(x: Array, *shape: int) -> Array:
        return jnp.zeros((*shape, *x.shape), dtype)

    return Replay(
        jax.tree.map(lambda x: zeros(x, slots, envs), obs),
        jnp.zeros((slots, envs, *action.shape), action.dtype),
        jnp.zeros((slots, envs)),
        jnp.zeros((slots, envs), bool),
        jnp.zeros((slots, envs), jnp.uint32),
        jax.tree.map(lambda x: zeros(x, finals), obs),
        jnp.zeros((), jnp.uint32),
        jnp.zeros((), jnp.int32),
        jnp.zeros((), jnp.int32),
    )


def write(
    replay: Replay, batch: Batch, obs: Observation, next_obs: Observation, action: Array
) -> Replay:
    """The replay with a batch [T, N, ...] in place of its oldest slots; at most S of them.

    obs, next_obs, action: of the batch, as they are to be stored.
    """
    (steps, envs), slots = batch.reward.shape, replay.reward.shape[0]
    at = (replay.head + jnp.arange(steps)) % slots
    cut = (batch.truncated & ~batch.terminated).reshape(-1)
    number = jnp.where(cut, replay.cuts + jnp.cumsum(cut, dtype=jnp.uint32), 0)
    count = replay.cuts + cut.sum(dtype=jnp.uint32)
    room = jax.tree.leaves(replay.finals)[0].shape[0]
    kept = cut & (count - number < room)
    place = jnp.where(kept, (number - 1) % room, room).astype(jnp.int32)

    def put(ring: Array, x: Array) -> Array:
        return ring.at[at].set(_narrow(x, ring.dtype), unique_indices=True)

    def put_final(ring: Array, x: Array) -> Array:
        flat = _narrow(x.reshape(steps * envs, *x.shape[2:]), ring.dtype)
        return ring.at[place].set(flat, mode="drop")

    return Replay(
        jax.tree.map(put, replay.obs, obs),
        put(replay.action, action),
        put(replay.reward, batch.reward),
        put(replay.terminated, batch.terminated),
        put(replay.cut, number.reshape(steps, envs)),
        jax.tree.map(put_final, replay.finals, next_obs),
        count,
        (replay.head + steps) % slots,
        jnp.minimum(replay.filled + steps, slots),
    )


def sample(
    replay: Replay, key: Array, size: int, history: int, n_step: int, gamma: float
) -> Transitions:
    """Transitions drawn uniformly, [size]. Consumes key.

    history: observations that the policy sees. n_step: control steps taken together, fewer where an
    episode ends. There must be more than `history + n_step - 1` filled slots.
    """
    key_slot, key_env = jax.random.split(key)
    slots, envs = replay.reward.shape
    age = jax.random.randint(key_slot, (size,), history - 1, replay.filled - n_step)
    slot = (replay.head - replay.filled + age) % slots
    env = jax.random.randint(key_env, (size,), 0, envs)
    return transitions_at(replay, slot, env, history, n_step, gamma)


def transitions_at(
    replay: Replay, slot: Array, env: Array, history: int, n_step: int, gamma: float
) -> Transitions:
    """The transitions that begin at slots [B] of environments [B].

    R = sum_k gamma^k r_k over the m steps until an episode ends, m <= n_step
    target = R + gamma^m Q(what followed the last of them), without Q where it terminated
    """
    slots, room = replay.reward.shape[0], jax.tree.leaves(replay.finals)[0].shape[0]
    steps = (slot[:, None] + jnp.arange(n_step)) % slots
    at = (steps, env[:, None])
    ended = replay.terminated[at] | (replay.cut[at] > 0)
    before = jnp.cumsum(ended, axis=1) - ended  # endings before each step
    taken = before == 0
    reward = jnp.sum(replay.reward[at] * taken * gamma ** jnp.arange(n_step), axis=1)
    length = taken.sum(axis=1)
    last = (slot + length - 1) % slots
    terminated, cut = replay.terminated[last, env], replay.cut[last, env]
    place = ((cut - 1) % room).astype(jnp.int32)

    def after(ring: Array, finals: Array) -> Array:
        following = ring[(last + 1) % slots, env]
        return jnp.where((cut > 0)[:, None], finals[place], following).astype(jnp.float32)

    following = jax.tree.map(after, replay.obs, replay.finals)
    seen, next_seen = _window(replay, slot, env, history), following.policy
    if history > 1:
        before_it = _window(replay, last, env, history)[:, 1:]
        next_seen = jnp.concatenate([before_it, next_seen[:, None]], axis=1)
    lost = (cut > 0) & (replay.cuts - cut >= room)
    return Transitions(
        seen,
        replay.obs.critic[slot, env].astype(jnp.float32),
        replay.action[slot, env],
        reward,
        jnp.where(terminated, 0.0, gamma ** length.astype(jnp.float32)),
        next_seen,
        following.critic,
        1.0 - lost.astype(jnp.float32),
    )


def _window(replay: Replay, slot: Array, env: Array, history: int) -> Array:
    """The policy's last observations [B, K, O] up to slots [B], zeros before the episode's start;
    [B, O] without a history."""
    if history == 1:
        return replay.obs.policy[slot, env].astype(jnp.float32)
    at = (slot[:, None] + jnp.arange(1 - history, 1)) % replay.reward.shape[0]
    ended = (replay.terminated | (replay.cut > 0))[at, env[:, None]]
    # an observation counts if no episode ended from its step to the one before the last
    endings = jnp.cumsum(ended[:, -2::-1], axis=1)[:, ::-1]
    same = jnp.concatenate([endings == 0, jnp.ones_like(ended[:, :1])], axis=1)
    seen = replay.obs.policy[at, env[:, None]].astype(jnp.float32)
    return jnp.where(same[..., None], seen, 0.0)


def _narrow(x: Array, dtype: jnp.dtype) -> Array:
    """x in the replay's dtype. What that cannot hold becomes its largest number, and NaN becomes 0:
    one NaN would spoil every update that samples it."""
    if not jnp.issubdtype(dtype, jnp.floating):
        return x.astype(dtype)
    most = float(jnp.finfo(dtype).max)
    return jnp.clip(jnp.nan_to_num(x), -most, most).astype(dtype)
