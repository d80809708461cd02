"""What Brax 0.14.2 needs of a jax that has dropped it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np


def complete_jax() -> None:
    """Give jax back what its trainers call, where it is missing."""
    if not hasattr(jax, "device_put_replicated"):
        jax.device_put_replicated = device_put_replicated


def device_put_replicated(tree: Any, devices: list[jax.Device]) -> Any:
    """What jax had under this name until 0.10, and brax 0.14.2 calls: a copy for each device."""
    mesh = jax.sharding.Mesh(np.array(devices), ("devices",))
    on_each = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    stacked = jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * len(devices)), tree)
    return jax.device_put(stacked, on_each)
