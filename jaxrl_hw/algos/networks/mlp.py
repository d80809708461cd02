"""Multilayer perceptrons."""

from __future__ import annotations

from collections.abc import Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.errors import unknown


@jax.custom_jvp
def elu(x: Array) -> Array:
    """x where positive, else exp(x) - 1 (Clevert, Unterthiner and Hochreiter 2016).

    flax's uses expm1, exact to the last bit near 0; exp and a derivative that reuses the output
    make a whole PPO update a tenth faster on a CPU.
    """
    return jnp.where(x > 0, x, jnp.exp(jnp.minimum(x, 0)) - 1)


@elu.defjvp
def _elu_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    y = elu(primals[0])
    return y, tangents[0] * jnp.where(y > 0, 1, y + 1)


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "elu": elu,
    "relu": nn.relu,
    "silu": nn.silu,
    "tanh": nn.tanh,
}


def activation_of(name: str) -> Callable[[Array], Array]:
    """Raises UserError for an unknown name."""
    if name not in ACTIVATIONS:
        raise unknown("activation", name, ACTIVATIONS)
    return ACTIVATIONS[name]


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
    layer_norm: bool = False
    """Whether each hidden layer's sums are normalized before the activation (Ba et al. 2016)."""

    @staticmethod
    def prepared(x: Array) -> Array:
        """Inputs [..., in] as `with_hidden` takes them."""
        return x

    def __call__(self, x: Array) -> Array:
        """[..., in] -> [..., out], float32."""
        return self.with_hidden(x)[0]

    @nn.compact
    def with_hidden(self, x: Array) -> tuple[Array, Array]:
        """[..., in] -> [..., out], and the last hidden layer's outputs [..., width], float32."""
        activation, dtype = activation_of(self.activation), jnp.dtype(self.dtype)
        hidden = nn.initializers.orthogonal(2.0**0.5)
        x = x.astype(dtype)
        for width in self.widths:
            x = nn.Dense(width, kernel_init=hidden, dtype=dtype)(x)
            x = nn.LayerNorm(dtype=dtype)(x) if self.layer_norm else x
            x = activation(x)
        last = nn.initializers.orthogonal(self.out_scale)
        out = nn.Dense(self.out, kernel_init=last, dtype=dtype)(x)
        return out.astype(jnp.float32), x.astype(jnp.float32)
