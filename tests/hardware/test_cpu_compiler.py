"""What XLA is told for a CPU, it knows, and the results are those of its own choice."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.hardware import cpu_compiler


@pytest.mark.parametrize(
    "options", [cpu_compiler.small_code, cpu_compiler.for_collecting, cpu_compiler.unoptimized]
)
def test_a_program_compiled_with_them_computes_the_same(
    options: Callable[[], cpu_compiler.Options],
) -> None:
    def layer(x: jax.Array, w: jax.Array) -> jax.Array:
        return jnp.sum(jax.nn.elu(x @ w) ** 2, axis=-1)

    rng = np.random.default_rng(0)
    x, w = (jnp.asarray(rng.normal(size=size), jnp.float32) for size in ((64, 32), (32, 16)))
    compiled = jax.jit(layer).lower(x, w).compile(options())
    np.testing.assert_allclose(compiled(x, w), layer(x, w), rtol=1e-5)


def test_an_option_that_xla_does_not_know_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Callable[[int], int]:
        raise jax.errors.JaxRuntimeError("No such compile option")

    cpu_compiler.small_code.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(jax, "jit", refuse)
        assert cpu_compiler.small_code() == {}
    cpu_compiler.small_code.cache_clear()


def test_what_is_compiled_quickly_computes_the_same_alone_and_inside_another_program() -> None:
    def draw(key: jax.Array) -> jax.Array:
        return jax.random.normal(key, (5,))

    quick, key = cpu_compiler.quick_jit(draw), jax.random.key(3)
    np.testing.assert_allclose(quick(key), draw(key), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda k: quick(k) * 2.0)(key), 2.0 * draw(key), rtol=1e-6)
