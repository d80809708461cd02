"""Multilayer perceptrons that treat a robot and its mirror image alike.

`f(mirror(x)) == mirror(f(x))` holds for any weights. Source: Cohen and Welling 2016
(arXiv:1602.07576), for a group of two; for legged robots Su et al. 2024 (arXiv:2403.17320).

A reflection splits a vector into an even part, which it keeps, and an odd part, which it negates. A
layer that treats both sides alike maps even to even and odd to odd: two products of half the size,
half the work of a dense layer. Hidden units come in pairs, which the reflection swaps.

The parameters are those of plain dense layers (`mlp.MLP`), which give the same outputs. Only a
policy that is not symmetric gives others: here its symmetric part counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.algos.networks.mlp import activation_of
from jaxrl_hw.types import SignedPermutation

_HALF = math.sqrt(0.5)


class Basis(NamedTuple):
    """The even and odd parts of a space that a reflection maps onto itself.

    Tuples, so that a flax module may have one as a field. An entry is its own mirror image, kept
    (`even`) or negated (`odd`), or it has a partner: mirrored[left] = sign * x[right].
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    sign: tuple[float, ...]
    even: tuple[int, ...]
    odd: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, int]:
        """Dimensions of the even and of the odd part."""
        return len(self.left) + len(self.even), len(self.left) + len(self.odd)

    @property
    def order(self) -> tuple[int, ...]:
        """The entries: all on the left, their partners, the even ones, the odd ones."""
        return (*self.left, *self.right, *self.even, *self.odd)

    def split(self, x: Array) -> tuple[Array, Array]:
        """Orthonormal coordinates of the even and of the odd part of vectors [..., D]."""
        pairs, kept = len(self.left), 2 * len(self.left) + len(self.even)
        x = _permuted(x, self.order)
        left, right = x[..., :pairs], x[..., pairs : 2 * pairs] * np.array(self.sign, x.dtype)
        even, odd = (left + right) * _HALF, (left - right) * _HALF
        if kept == x.shape[-1] == 2 * pairs:
            return even, odd
        return (
            jnp.concatenate([even, x[..., 2 * pairs : kept]], axis=-1),
            jnp.concatenate([odd, x[..., kept:]], axis=-1),
        )

    def join(self, even: Array, odd: Array) -> Array:
        """The vectors [..., D] of these coordinates."""
        pairs = len(self.left)
        both, one = even[..., :pairs], odd[..., :pairs]
        right = (both - one) * _HALF * np.array(self.sign, even.dtype)
        parts = [(both + one) * _HALF, right, even[..., pairs:], odd[..., pairs:]]
        return _permuted(jnp.concatenate(parts, axis=-1), _inverse(self.order))


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(np.array(order, int)))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _permuted(x: Array, order: tuple[int, ...]) -> Array:
    """x[..., order]. Its gradient is one too; JAX's own adds into zeros, which is slow on a CPU."""
    return x if order == tuple(range(len(order))) else x[..., np.array(order, int)]


_permuted.defvjp(
    lambda x, order: (_permuted(x, order), None),
    lambda order, _, gradient: (_permuted(gradient, _inverse(order)),),
)


def basis_of(mirror: SignedPermutation, copies: int = 1) -> Basis:
    """The basis of a reflection, which is its own inverse, of so many vectors end to end."""
    size = len(mirror.perm)
    perm = np.concatenate([np.asarray(mirror.perm) + k * size for k in range(copies)])
    sign = np.tile(np.asarray(mirror.sign, float), copies)
    index = np.arange(len(perm))
    left, alone = index[index < perm], index[index == perm]

    def ints(values: np.ndarray) -> tuple[int, ...]:
        return tuple(int(value) for value in values)

    signs = tuple(float(s) for s in sign[left])
    kept, negated = alone[sign[alone] > 0], alone[sign[alone] < 0]
    return Basis(ints(left), ints(perm[left]), signs, ints(kept), ints(negated))


def pairs(width: int) -> Basis:
    """The basis of hidden units: the first half are the partners of the second."""
    half = width // 2
    return Basis(tuple(range(half)), tuple(range(half, width)), (1.0,) * half, (), ())


INVARIANT = Basis((), (), (), (0,), ())
"""Of one number that a reflection leaves as it is."""


class EquivariantDense(nn.Module):
    """A dense layer whose output's mirror image is that of the input's mirror image."""

    source: Basis
    target: Basis
    gain: float
    dtype: Any

    @nn.compact
    def __call__(self, even: Array, odd: Array) -> tuple[Array, Array]:
        """Coordinates of the input's even and odd part -> those of the output's."""
        source, target = self.source, self.target
        size = sum(source.sizes), sum(target.sizes)

        def fresh(key: Array, shape: tuple[int, int]) -> Array:
            """Orthogonal: so is each of both parts."""
            blocks = [
                nn.initializers.orthogonal(self.gain)(k, block) if all(block) else jnp.zeros(block)
                for k, block in zip(
                    jax.random.split(key), zip(source.sizes, target.sizes, strict=True), strict=True
                )
            ]
            (a, b), (c, d) = source.sizes, target.sizes
            even = target.join(blocks[0], jnp.zeros((a, d)))
            odd = target.join(jnp.zeros((b, c)), blocks[1])
            return source.join(even.T, odd.T).T.reshape(shape)

        kernel = self._weights("kernel", fresh, size)
        bias = self._weights("bias", nn.initializers.zeros_init(), size[1:])
        rows_even, rows_odd = (rows.T for rows in source.split(kernel.T))
        shift, _ = target.split(bias)
        return even @ target.split(rows_even)[0] + shift, odd @ target.split(rows_odd)[1]

    def _weights(self, name: str, fresh: Callable[..., Array], shape: tuple[int, ...]) -> Array:
        """Flax's `param` traces what makes fresh weights whenever it reads those there are."""
        if self.is_initializing():
            return self.param(name, fresh, shape).astype(self.dtype)
        return self.get_variable("params", name).astype(self.dtype)


class EquivariantMLP(nn.Module):
    """Dense layers with one activation between them, as `mlp.MLP`, symmetric by construction.

    source, target: of its inputs and of its outputs.
    """

    widths: tuple[int, ...]
    source: Basis
    target: Basis
    activation: str = "elu"
    out_scale: float = 1.0
    dtype: str = "float32"

    def prepared(self, x: Array) -> tuple[Array, Array]:
        """Inputs [..., in] as `with_hidden` takes them: their even and odd parts. What many passes
        read is split once."""
        return self.source.split(x)

    def __call__(self, x: Array) -> Array:
        """[..., in] -> [..., out], float32."""
        return self.with_hidden(self.prepared(x))[0]

    @nn.compact
    def with_hidden(self, parts: tuple[Array, Array]) -> tuple[Array, Array]:
        """What `prepared` gives -> outputs [..., out], last hidden layer [..., width], float32."""
        activation, dtype = activation_of(self.activation), jnp.dtype(self.dtype)
        source = self.source
        even, odd = (part.astype(dtype) for part in parts)
        for i, width in enumerate(self.widths):
            target = pairs(width)
            even, odd = EquivariantDense(source, target, 2.0**0.5, dtype, name=f"Dense_{i}")(
                even, odd
            )
            # as halves: laid end to end they would be copied
            left, right = activation((even + odd) * _HALF), activation((even - odd) * _HALF)
            even, odd, source = (left + right) * _HALF, (left - right) * _HALF, target
        last = EquivariantDense(
            source, self.target, self.out_scale, dtype, name=f"Dense_{len(self.widths)}"
        )
        hidden, out = source.join(even, odd), self.target.join(*last(even, odd))
        return out.astype(jnp.float32), hidden.astype(jnp.float32)
