"""Converts a state to named NumPy arrays with a description, and back, to the last bit."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_hw.checkpointing.description import Arrays, DamagedError, Description
from jaxrl_hw.errors import UserError

_SHOWN = 3


def to_arrays(state: Any) -> tuple[Arrays, Description]:
    """Copy every leaf to the host: arrays by name ("params.policy.0.w"), and their description.

    The copies share no memory with the device, so the state may be donated when this returns. Typed
    random keys become their uint32 data.
    """
    leaves = _named(state)
    raw = {n: jax.random.key_data(x) if _is_key(x) else x for n, x in leaves.items()}
    for leaf in raw.values():
        if isinstance(leaf, jax.Array):
            leaf.copy_to_host_async()  # starts all transfers; the copies below wait for each
    arrays = {name: np.array(leaf, copy=True, order="C") for name, leaf in raw.items()}
    return arrays, {name: _describe(leaf, arrays[name]) for name, leaf in leaves.items()}


def add_checksums(arrays: Arrays, description: Description) -> None:
    """Add the checksum of every array to its description."""
    for name, array in arrays.items():
        description[name]["crc"] = _crc(array)


def check_same(description: Description, template: Any, source: str) -> None:
    """Raises UserError, naming the first leaves that differ, where `template` has another form.

    The kind of a random key is no part of it: each leaf comes back as the kind that was saved.
    """
    leaves = {n: x if hasattr(x, "dtype") else np.asarray(x) for n, x in _named(template).items()}
    wanted = {
        name: _text("key" if _is_key(leaf) else str(leaf.dtype), leaf.shape)
        for name, leaf in leaves.items()
    }
    saved = {
        name: _text("key" if "impl" in entry else entry["dtype"], entry["shape"])
        for name, entry in description.items()
    }
    differing = [
        f"{name}: saved {saved.get(name, 'nothing')}, now {wanted.get(name, 'nothing')}"
        for name in {**wanted, **saved}
        if saved.get(name) != wanted.get(name)
    ]
    if differing:
        more = len(differing) - _SHOWN
        rest = f"; and {more} more" if more > 0 else ""
        raise UserError(
            f"{source} was saved with other settings: {'; '.join(differing[:_SHOWN])}{rest}; "
            "use the settings it was saved with, or another --run-dir"
        )


def verified(arrays: Mapping[str, Any], description: Description) -> Arrays:
    """The arrays that a description names.

    Raises DamagedError where one is missing or differs from its checksum.
    """
    found = {}
    for name, entry in description.items():
        is_key = "impl" in entry
        shape = tuple(entry["raw" if is_key else "shape"])
        dtype = np.dtype(np.uint32) if is_key else jnp.dtype(entry["dtype"])
        if 0 in shape:  # not saved: Orbax refuses arrays without elements
            found[name] = np.zeros(shape, dtype)
            continue
        if name not in arrays:
            raise DamagedError(f"{name} is missing")
        found[name] = array = np.asarray(arrays[name])
        if (array.shape, array.dtype, _crc(array)) != (shape, dtype, entry["crc"]):
            raise DamagedError(f"{name} differs from what was written")
    return found


def from_arrays(arrays: Arrays, description: Description, template: Any) -> Any:
    """The state in `template`'s structure, as uncommitted arrays on the default device.

    They have no weak type, so a jitted function does not compile again.
    """
    names, treedef = list(_named(template)), jax.tree_util.tree_structure(template)
    leaves = []
    for name, leaf in zip(names, jax.tree_util.tree_leaves(template), strict=True):
        entry, array = description[name], arrays[name]
        if "impl" in entry:
            leaves.append(jax.random.wrap_key_data(_own(array), impl=entry["impl"]))
        elif isinstance(leaf, (bool, int, float, complex)):
            leaves.append(type(leaf)(array.item()))
        else:
            leaves.append(_own(array))
    return jax.tree_util.tree_unflatten(treedef, leaves)


def _own(array: np.ndarray) -> jax.Array:
    """In XLA's own memory: a buffer of NumPy's would be copied whenever it is donated.

    `jnp.array` would compile a program for each shape.
    """
    return jax.device_put(array, may_alias=False)


def _named(tree: Any) -> dict[str, Any]:
    flat, _ = jax.tree_util.tree_flatten_with_path(tree)
    named = {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in flat}
    if len(named) != len(flat):
        raise ValueError("two leaves of the state have the same name when joined by dots")
    return named


def _is_key(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jax.dtypes.prng_key)


def _text(dtype: str, shape: Any) -> str:
    return f"{dtype}[{','.join(str(n) for n in shape)}]"


def _describe(leaf: Any, array: np.ndarray) -> dict[str, Any]:
    shape = list(array.shape)
    if not _is_key(leaf):
        return {"dtype": str(array.dtype), "shape": shape}
    impl = str(jax.random.key_impl(leaf))
    return {"dtype": str(leaf.dtype), "shape": list(leaf.shape), "raw": shape, "impl": impl}


def _crc(array: np.ndarray) -> int:
    # As bytes, because zlib does not know bfloat16.
    return zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
