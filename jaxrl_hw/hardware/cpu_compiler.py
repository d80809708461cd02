"""XLA's options for what it compiles for a CPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Any, TypeVar

import jax

Options = dict[str, Any]
"""XLA's compiler options, by name; empty where there is none to give."""


@lru_cache(maxsize=1)
def small_code() -> Options:
    """Options that leave out the fusion emitters; empty where this XLA does not know them.

    They suit programs that collect experience or drive a policy. Such a program compiles in 0.6 of
    the time and with half the memory, and is not slower: collecting with g1_12dof and g1 takes 0.93
    of the CPU time. They do not suit an update, which takes 1.2 times as long. Measured with jax
    0.10.2 on two cores.
    """
    options = {"xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda x: x + 1, compiler_options=options)(0)
    except jax.errors.JaxRuntimeError:
        return {}
    return options


def for_collecting() -> Options:
    """Options for a program that collects experience on the default device."""
    return small_code() if jax.default_backend() == "cpu" else {}


def unoptimized() -> Options:
    """Options for a program that runs a few times or never, so that optimizing it does not pay."""
    if jax.default_backend() != "cpu":
        return {}
    return {"xla_backend_optimization_level": 0} | small_code()


_T = TypeVar("_T")


def quick_jit(function: Callable[..., _T]) -> Callable[..., _T]:
    """`jax.jit` for a small function: on a CPU it compiles in a third of the time.

    Inside another program it is the function itself, since JAX takes compiler options for whole
    programs only. It is compiled at its first call, when JAX knows the platform.
    """
    compiled: list[Callable[..., _T]] = []

    @wraps(function)
    def call(*args: Any) -> _T:
        if any(isinstance(x, jax.core.Tracer) for x in jax.tree.leaves(args)):
            return function(*args)
        if not compiled:
            compiled.append(jax.jit(function, compiler_options=unoptimized()))
        return compiled[0](*args)

    return call
