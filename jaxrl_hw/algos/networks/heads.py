"""How the outputs of a policy's network become actions."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.types import Head


def apply_head(head: Head, out: Array) -> Array:
    """Outputs [..., K] of the network -> actions [..., A]; see `Head`."""
    if head.kind == "tanh":
        return head.array * jnp.tanh(out)
    if head.kind == "argmax":
        return jnp.asarray(head.array)[jnp.argmax(out, axis=-1)]
    return out
