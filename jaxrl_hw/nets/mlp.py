"""Multilayer perceptrons."""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.errors import unknown

ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "elu": nn.elu,
    "relu": nn.relu,
    "silu": nn.silu,
    "tanh": nn.tanh,
}


class MLP(nn.Module):
    """Dense layers with one activation between them; the last layer is linear.

    Weights are kept in float32. With `dtype=bfloat16` the products are made in bfloat16 and the
    output is cast back: on cards with bfloat16 units that is faster and halves activations.
    """

    widths: tuple[int, ...]
    out: int
    activation: str = "elu"
    out_scale: float = 1.0
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """[..., in] -> [..., out], float32."""
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        dtype = jnp.dtype(self.dtype)
        hidden = nn.initializers.orthogonal(2.0**0.5)
        x = x.astype(dtype)
        for width in self.widths:
            x = ACTIVATIONS[self.activation](nn.Dense(width, kernel_init=hidden, dtype=dtype)(x))
        last = nn.initializers.orthogonal(self.out_scale)
        return nn.Dense(self.out, kernel_init=last, dtype=dtype)(x).astype(jnp.float32)
