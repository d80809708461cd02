"""Environment variables that keep a training from starting, or make it slow or wrong.

What is said of each was seen with jax 0.10 on a CPU, or is what jaxlib's own code says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

_TRUE = ("y", "yes", "t", "true", "on", "1")  # as JAX reads them
_FALSE = ("n", "no", "f", "false", "off", "0")
_EXACT = ("", "highest", "float32")
_GL = ("", "egl", "osmesa", "glfw", "glx", "cgl", "wgl")
_GL_SWITCH = ("enable", "enabled", "on", "true", "1", "disable", "disabled", "off", "false", "0")


class Harm(NamedTuple):
    """A variable and the values of it that do harm."""

    name: str
    is_bad: Callable[[str], bool]
    why: str
    """What comes of it, to be read after NAME=VALUE."""


def _on(value: str) -> bool:
    return value.strip().lower() in _TRUE


def _off(value: str) -> bool:
    return value.strip().lower() in _FALSE


def _is(*words: str) -> Callable[[str], bool]:
    return lambda value: value.strip().lower() in words


def _is_none_of(*words: str) -> Callable[[str], bool]:
    return lambda value: value.strip().lower() not in words


def _has(flag: str) -> Callable[[str], bool]:
    return lambda value: flag in value


_HARMS = (
    Harm("JAX_ENABLE_X64", _on, "training does not start with 64-bit numbers"),
    Harm("JAX_DISABLE_JIT", _on, "training cannot be compiled, and does not start"),
    Harm("JAX_DEBUG_NANS", _on, "training stops at the NaN that means: no episode has ended yet"),
    Harm("JAX_DEBUG_KEY_REUSE", _on, "training does not start"),
    Harm("JAX_NUMPY_DTYPE_PROMOTION", _is("strict"), "training does not start"),
    Harm("JAX_NUMPY_RANK_PROMOTION", _is("raise"), "training does not start"),
    Harm("JAX_TRANSFER_GUARD", _is("disallow", "disallow_explicit"), "training does not start"),
    Harm("JAX_CHECK_TRACER_LEAKS", _on, "training is many times slower"),
    Harm("JAX_DISABLE_MOST_OPTIMIZATIONS", _on, "training is many times slower"),
    Harm("JAX_ENABLE_CHECKS", _on, "training is slower"),
    Harm("JAX_ENABLE_COMPILATION_CACHE", _off, "every start compiles everything anew"),
    Harm(
        "JAX_CPU_ENABLE_ASYNC_DISPATCH",
        _is_none_of("", "0", "false", "no", "off"),
        "with the C engine a training may wait for itself for ever",
    ),
    Harm(
        "JAX_DEFAULT_MATMUL_PRECISION",
        _is_none_of(*_EXACT),
        "networks multiply in this precision (physics in its own, the highest)",
    ),
    Harm("XLA_FLAGS", _has("--xla_dump_to"), "every compilation writes files that nobody removes"),
    Harm(
        "XLA_FLAGS",
        _has("--xla_force_host_platform_device_count"),
        "the processor is split, and only the first part is used",
    ),
    Harm(
        "XLA_PYTHON_CLIENT_ALLOCATOR",
        _is("platform"),
        "every array is allocated by the driver, which is many times slower on a GPU",
    ),
    Harm(
        "MUJOCO_GL",
        _is_none_of(*_GL, *_GL_SWITCH),
        "MuJoCo cannot be imported; known are egl, osmesa and glfw",
    ),
    Harm(
        "MUJOCO_GL",
        _is(*_GL_SWITCH),
        "no films: they need egl, osmesa or glfw",
    ),
)

NEW_SHARE, OLD_SHARE = "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"


def harm(name: str, environ: Mapping[str, str]) -> str:
    """What a variable that is set does wrong, "" where it does none."""
    if name == OLD_SHARE:
        if environ.get(NEW_SHARE):
            return f"{NEW_SHARE} is set too: with both, jaxlib refuses to open a GPU"
        return f"deprecated; use {NEW_SHARE}" if environ[name] else ""
    if name == "LD_LIBRARY_PATH":
        return "may put other CUDA libraries in place of those that JAX brings along"
    said = [h.why for h in _HARMS if h.name == name and h.is_bad(environ[name])]
    return "; ".join(said)
