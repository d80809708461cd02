"""The ring of past experience: what lies where, and what a sample of it says."""

from __future__ import annotations

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.algos.replay import Replay, empty, sample, transitions_at, write
from jaxrl_hw.algos.replay_size import transition_bytes
from jaxrl_hw.types import Batch, Observation, ReplayNeeds

N = 2


def needs(capacity: int, span: int = 2) -> ReplayNeeds:
    return ReplayNeeds(capacity, 10, 1, span)


def nothing(capacity: int = 16, dtype: str = "float32") -> Replay:
    one = Observation(jnp.zeros(1), jnp.zeros(1))
    return empty(needs(capacity), N, one, jnp.zeros(1), dtype)


def batch(first: int, steps: int, terminated: tuple = (), truncated: tuple = ()) -> Batch:
    """Step t of environment n shows 10 t + n, is paid t and acts -t; what follows an end is lost in
    the next reset but for the final observation, 1000 + t."""
    t = np.arange(first, first + steps)[:, None] * np.ones((1, N))
    seen = jnp.asarray(10 * t + np.arange(N), jnp.float32)[..., None]
    over = [np.isin(t, list(ends)) for ends in (terminated, truncated)]
    final = np.where(over[0] | over[1], 1000 + t, 10 * (t + 1) + np.arange(N))
    after = jnp.asarray(final, jnp.float32)[..., None]
    return Batch(
        Observation(seen, -seen),
        jnp.asarray(-t, jnp.float32)[..., None],
        jnp.asarray(t, jnp.float32),
        Observation(after, -after),
        jnp.asarray(over[0]),
        jnp.asarray(over[1]),
        {},
    )


def written(replay: Replay, *batches: Batch) -> Replay:
    put = jax.jit(lambda r, b: write(r, b, b.obs, b.next_obs, b.action))
    for one in batches:
        replay = put(replay, one)
    return replay


def at(replay: Replay, slots: list[int], **how):
    options = {"history": 1, "n_step": 1, "gamma": 0.5, **how}
    where = jnp.asarray(slots), jnp.zeros(len(slots), jnp.int32)
    return jax.jit(lambda r: transitions_at(r, *where, **options))(replay)


def test_the_oldest_slots_are_written_over():
    replay = written(nothing(12), batch(0, 4), batch(4, 4))  # 6 slots
    np.testing.assert_array_equal(replay.reward[:, 0], [6, 7, 2, 3, 4, 5])
    assert (int(replay.head), int(replay.filled)) == (2, 6)


def test_what_follows_is_the_next_slot_across_the_rings_end():
    got = at(written(nothing(12), batch(0, 4), batch(4, 4)), [5, 0])
    np.testing.assert_array_equal(got.seen[:, 0], [50, 60])
    np.testing.assert_array_equal(got.next_seen[:, 0], [60, 70])
    np.testing.assert_array_equal(got.next_critic[:, 0], [-60, -70])
    np.testing.assert_array_equal(got.action[:, 0], [-5, -6])


def test_a_truncated_step_has_its_true_final_observation_and_a_terminated_one_no_future():
    got = at(written(nothing(), batch(0, 8, terminated=(2,), truncated=(5,))), [1, 2, 5])
    np.testing.assert_array_equal(got.next_seen[1:, 0][1], 1005)
    np.testing.assert_allclose(got.discount, [0.5, 0.0, 0.5])


def test_n_step_returns_stop_at_an_episodes_end():
    replay = written(nothing(), batch(0, 8, terminated=(2,), truncated=(5,)))
    got = at(replay, [0, 1, 3, 5, 6 - 6], n_step=3)
    # 0 + 1/2 + 2/4 ended by step 2; 1 + 2/2; 3 + 4/2 + 5/4, cut by step 5; 5 alone
    np.testing.assert_allclose(got.reward[:4], [1.0, 2.0, 6.25, 5.0])
    np.testing.assert_allclose(got.discount[:4], [0.0, 0.0, 0.125, 0.5])
    np.testing.assert_array_equal(got.next_seen[2:4, 0], [1005, 1005])
    whole = at(written(nothing(), batch(0, 8)), [1], n_step=3)
    np.testing.assert_allclose(whole.reward, [1 + 2 / 2 + 3 / 4])
    np.testing.assert_array_equal(whole.next_seen[:, 0], [40])


def test_a_history_begins_with_its_episode():
    replay = written(nothing(), batch(0, 8, truncated=(2,)))
    got = at(replay, [2, 3, 4, 6], history=3)
    np.testing.assert_array_equal(
        got.seen[..., 0], [[0, 10, 20], [0, 0, 30], [0, 30, 40], [40, 50, 60]]
    )
    np.testing.assert_array_equal(
        got.next_seen[..., 0], [[10, 20, 1002], [0, 30, 40], [30, 40, 50], [50, 60, 70]]
    )


def test_a_lost_final_observation_takes_the_sample_out():
    replay = nothing(16)  # room for one final observation
    replay = written(replay, batch(0, 8, truncated=(1,)))
    got = at(replay, [1, 2])
    # both environments were cut in the same step: the first one's place is the second's now
    np.testing.assert_array_equal(got.weight, [0.0, 1.0])
    kept = jax.jit(lambda r: transitions_at(r, jnp.array([1]), jnp.array([1]), 1, 1, 0.5))(replay)
    np.testing.assert_array_equal(kept.weight, [1.0])
    np.testing.assert_array_equal(kept.next_seen[:, 0], [1001])


@pytest.mark.parametrize(("history", "n_step"), [(1, 1), (3, 2)])
def test_samples_lie_where_all_that_they_need_is_stored(history: int, n_step: int):
    replay = written(nothing(12), batch(0, 4), batch(4, 4))  # holds steps 2 to 7
    draw = jax.jit(lambda key: sample(replay, key, 500, history, n_step, 0.5))
    got = draw(jax.random.key(0))
    steps = np.unique(-np.asarray(got.action[:, 0]))
    # the first has history - 1 before it, the last is followed by n_step stored ones
    np.testing.assert_array_equal(steps, np.arange(2 + history - 1, 8 - n_step))
    newest = np.asarray(got.seen if history == 1 else got.seen[:, -1])[:, 0]
    assert set(np.unique(newest % 10)) == {0.0, 1.0}, "of both environments"
    chex.assert_trees_all_equal(draw(jax.random.key(0)), got)


@pytest.mark.parametrize(("dtype", "most"), [("float16", 65504.0), ("bfloat16", 3e38)])
def test_a_narrow_replay_clips_what_it_cannot_hold(dtype: str, most: float):
    one = batch(0, 4)
    huge = one._replace(obs=jax.tree.map(lambda x: x + 1e6, one.obs))
    got = at(written(nothing(16, dtype), huge), [1])
    assert np.isfinite(got.seen).all()
    assert float(got.seen[0, 0]) <= most
    assert got.seen.dtype == jnp.float32


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_bytes_of_a_transition_are_those_of_the_arrays(dtype: str):
    made = jax.eval_shape(
        lambda: empty(
            needs(64_000), 64, Observation(jnp.zeros(47), jnp.zeros(56)), jnp.zeros(12), dtype
        )
    )
    total = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(made))
    assert total / 64_000 == pytest.approx(transition_bytes(47 + 56, 12, dtype), abs=1.0)


def test_the_replay_holds_no_nan():
    """Every update that samples one would not be finite, and be skipped."""
    spoilt = batch(0, 4, truncated=(2,))
    nan = jnp.full((), jnp.nan)
    spoilt = spoilt._replace(
        reward=spoilt.reward.at[1, 0].set(nan),
        action=spoilt.action.at[1, 0].set(nan),
        obs=Observation(spoilt.obs.policy.at[1, 0].set(nan), spoilt.obs.critic),
        next_obs=Observation(spoilt.next_obs.policy.at[2, 0].set(nan), spoilt.next_obs.critic),
    )
    replay = written(nothing(), spoilt)
    chex.assert_tree_all_finite(replay)
    assert [float(x) for x in at(replay, [0, 1, 2]).reward] == [0.0, 0.0, 2.0]
