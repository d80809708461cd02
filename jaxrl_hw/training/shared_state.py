"""A train state that one process has and all need, or of which each has a part, as bytes.

Over the processes' own connections: a collective of JAX's would need a device's memory for the
environments of all, and programs of one order in all processes.
"""

from __future__ import annotations

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.checkpointing.leaves import from_arrays, to_arrays
from jaxrl_hw.envs.vector import Env
from jaxrl_hw.training.group import Group
from jaxrl_hw.training.layout import local
from jaxrl_hw.training.train_step import state_form
from jaxrl_hw.types import Algorithm, TrainState


def state_of_first(
    group: Group, state: TrainState | None, env: Env, algorithm: Algorithm
) -> TrainState:
    """The first process's state, to the bit, in all of them. All processes call this together.

    state: whole, as arrays of this process; None in all but the first.
    env, algorithm: that it is for.
    """
    if group.is_first:
        assert state is not None
        if group.number > 1:
            group.share(_packed(state))
        return state
    form: TrainState = _unpacked(group.share(), state_form(env, algorithm))
    return form


def whole_state(group: Group, state: TrainState) -> TrainState:
    """A placed state with the environments of all processes, as arrays of the first one; without
    environments in the others. All processes call this together."""
    if group.number == 1:
        return state
    placed, state = state.env_state, local(state._replace(env_state=None))
    mine = jax.tree.map(_rows, placed)
    parts = [_unpacked(data, mine) for data in group.collect(_packed(mine))]
    if not group.is_first:
        return state

    def join(leaf: Array, *rows: Any) -> Any:
        whole = rows[0] if leaf.is_fully_replicated else np.concatenate(rows)
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return whole
        return jax.random.wrap_key_data(jnp.asarray(whole), impl=jax.random.key_impl(leaf))

    return state._replace(env_state=jax.tree.map(join, placed, mine, *parts))


def _rows(leaf: Array) -> np.ndarray:
    """This process's part of an array, in order."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if leaf.is_fully_replicated:
        return np.asarray(leaf.addressable_data(0))
    parts = sorted(leaf.addressable_shards, key=lambda part: part.index[0].start or 0)
    return np.concatenate([np.asarray(part.data) for part in parts])


def _packed(tree: Any) -> bytes:
    """A line of JSON that describes the leaves, and their bytes in its order."""
    arrays, described = to_arrays(tree)
    raw = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
    head = json.dumps({"leaves": described, "raw": raw}).encode() + b"\n"
    return head + b"".join(array.tobytes() for array in arrays.values())


def _unpacked(data: bytes, form: Any) -> Any:
    head, _, rest = data.partition(b"\n")
    told, arrays, at = json.loads(head), {}, 0
    for name, (dtype, shape) in told["raw"].items():
        count = int(np.prod(shape, dtype=int))
        arrays[name] = np.frombuffer(rest, jnp.dtype(dtype), count, at).reshape(shape)
        at += arrays[name].nbytes
    return from_arrays(arrays, told["leaves"], form)
