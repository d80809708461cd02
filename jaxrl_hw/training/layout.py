"""Data-parallel training: the halves of a train step over the devices of one or more processes.

The environments lie in equal parts, the shards, as many whatever the number of devices. A half of
the train step is written for one shard: `jax.vmap` runs it for a device's shards, `jax.shard_map`
on every device, and what it reduces (`Shards`) it reduces over both. Each shard draws its own
random numbers, so the results depend on the number of devices by the order of sums alone.

`shard_map` and not sharded arguments of a plain jit: the partitioner would put an all-reduce into
the loop of MJX's solver, whose end depends on all environments, and copy what a host callback
returns to every device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxrl_hw.config.schema import Config
from jaxrl_hw.planning.devices import device_count, is_sharded, shards_of
from jaxrl_hw.training.rollout import RolloutState
from jaxrl_hw.types import DEVICES, Batch, Learner, Shards, TrainState

_ON_DEVICE = "shard"
"""The axis of `jax.vmap` over the shards of one device."""

# Which axis of each leaf goes over the shards; None for what is the same in all of them.
_ENVS = RolloutState(0, None, None, 0)  # type: ignore[arg-type]
_STATE = TrainState(None, None, None, _ENVS, None, None, None)  # type: ignore[arg-type]
_BATCH = Batch(0, 0, 0, 0, 0, 0, 0, None, 0, None)  # type: ignore[arg-type]


class Layout(NamedTuple):
    """Where a run lies: equal parts of its environments on the devices of a mesh, the learner on
    each of them."""

    mesh: Mesh
    shards: int
    """Parts, a multiple of the devices."""

    def place(self, state: TrainState) -> TrainState:
        """A state on the devices; or the form of one, for the compiler."""
        placed: TrainState = self._placed(_STATE, state)
        return placed

    def place_batch(self, batch: Batch) -> Batch:
        """The same for what goes from one half of the step to the other, leaves [shards, ...]."""
        placed: Batch = self._placed(_BATCH, batch)
        return placed

    def jit(self, collect: Any, update: Any) -> tuple[Any, Any]:
        """The halves of a train step, written for one shard, as jitted functions of all of them.

        collect(learner, envs, key, env_steps, shards) -> (envs, batch, metrics)
        update(learner, replay, batch, key, shards) -> (learner, metrics)
        """
        shards, collected = Shards(self.shards, (_ON_DEVICE, DEVICES)), (_ENVS, _BATCH, None)
        collect = self._on_devices(
            partial(collect, shards=shards), (None, _ENVS, 0, None), collected
        )
        update = self._on_devices(partial(update, shards=shards), (None, None, _BATCH, 0), None)

        def collect_all(learner: Learner, envs: Any, key: Array, env_steps: Array) -> Any:
            envs, batch, metrics = collect(learner, self._cut(envs), self._keys(key), env_steps)
            return _joined(envs), batch, metrics

        def update_all(learner: Learner, replay: Any, batch: Batch, key: Array) -> Any:
            return update(learner, replay, batch, self._keys(key))

        # named, because the compiler puts arrays without entries where it likes
        where = _map_axes(self._sharding, collected)
        return (
            jax.jit(collect_all, donate_argnums=1, out_shardings=where),
            jax.jit(update_all, out_shardings=self._sharding(None)),
        )

    def each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of what there is one of, such as the run's key."""
        return function

    def _sharding(self, axis: int | None) -> NamedSharding:
        return NamedSharding(self.mesh, _spec(axis))

    def _on_devices(self, function: Callable[..., Any], into: Any, out: Any) -> Any:
        """The function of one shard's arguments for all shards; axes as for `jax.vmap`."""
        many = jax.vmap(function, into, out, axis_name=_ON_DEVICE)
        into, out = (_map_axes(_spec, axes) for axes in (into, out))
        # unchecked: a checked map would add up the gradients over the devices by itself
        return jax.shard_map(many, mesh=self.mesh, in_specs=into, out_specs=out, check_vma=False)

    def _keys(self, key: Array) -> Array:
        """A key for each shard. Consumes key."""
        return jax.random.split(key, self.shards)

    def _cut(self, envs: RolloutState) -> RolloutState:
        """Leaves [N, ...] as [shards, N / shards, ...]."""

        def cut(x: Array) -> Array:
            return x.reshape(self.shards, len(x) // self.shards, *x.shape[1:])

        return envs._replace(**jax.tree.map(cut, {"envs": envs.envs, "memory": envs.memory}))

    def _placed(self, axes: Any, tree: Any) -> Any:
        def put(axis: int | None, part: Any) -> Any:
            sharding = self._sharding(axis)

            def one(leaf: Any) -> Any:
                is_form = isinstance(leaf, jax.ShapeDtypeStruct)
                return leaf.update(sharding=sharding) if is_form else _put(leaf, sharding)

            return jax.tree.map(one, part)

        return _map_axes(put, axes, tree)


def layout_of(config: Config) -> Layout | None:
    """That of a config whose devices and environments are settled; None without `--devices`."""
    if not is_sharded(config):
        return None
    devices = device_count(config)
    each, everywhere = devices // jax.process_count(), jax.devices()
    chosen = [
        device
        for process in range(jax.process_count())
        for device in [one for one in everywhere if one.process_index == process][:each]
    ]
    return Layout(Mesh(np.array(chosen), (DEVICES,)), shards_of(int(config.num_envs), devices))


def local(tree: Any) -> Any:
    """What is the same on all devices, as arrays of this process; the rest as it is."""

    def one(leaf: Any) -> Any:
        is_copy = leaf.is_fully_replicated and not leaf.is_fully_addressable
        return leaf.addressable_data(0) if is_copy else leaf

    return jax.tree.map(one, tree) if jax.process_count() > 1 else tree


def _put(leaf: Any, sharding: NamedSharding) -> Array:
    """An array on devices of one or more processes, each of which has the whole of it."""
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        words = _put(jax.random.key_data(leaf), sharding)
        return jax.random.wrap_key_data(words, impl=jax.random.key_impl(leaf))
    whole = np.asarray(leaf)
    return jax.make_array_from_callback(whole.shape, sharding, lambda index: whole[index])


def _spec(axis: int | None) -> PartitionSpec:
    return PartitionSpec() if axis is None else PartitionSpec(DEVICES)


def _map_axes(function: Callable[..., Any], axes: Any, *trees: Any) -> Any:
    """`jax.tree.map` over axes, of which None is one, and what stands at their place in trees."""
    return jax.tree.map(function, axes, *trees, is_leaf=lambda axis: axis is None)


def _joined(envs: RolloutState) -> RolloutState:
    """Leaves [shards, n, ...] as [shards * n, ...]."""

    def join(x: Array) -> Array:
        return x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])  # -1 cannot be told of 0 entries

    return envs._replace(**jax.tree.map(join, {"envs": envs.envs, "memory": envs.memory}))
