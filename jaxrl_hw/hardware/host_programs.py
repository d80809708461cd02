"""Programs that call the host, kept on disk beside those that JAX keeps.

JAX 0.10's persistent cache leaves out every program with a host callback, and the collection on the
native engine is one. Its text names callbacks by number, so the compiled program serves another
process that brings callbacks of its own. JAX 0.11 keeps such programs itself.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import jax
from jax._src import compilation_cache, compiler

_NEEDS = (
    (compiler, "compile_or_get_cached"),
    (compilation_cache, "get_cache_key"),
    (compilation_cache, "is_cache_used"),
    (compilation_cache, "put_executable_and_time"),
    (compilation_cache, "decompress_executable"),
    (compilation_cache, "extract_executable_and_time"),
    (compilation_cache, "_get_cache"),
)
"""What this takes of JAX's private parts; another JAX that lacks one compiles each time."""
_LEAST_SECONDS = "jax_persistent_cache_min_compile_time_secs"
_lock, _inside = threading.Lock(), 0
_original: Any = None


@functools.cache
def jax_keeps_them() -> bool:
    """Whether JAX's own cache takes programs with host callbacks."""
    read = getattr(compilation_cache, "get_executable_and_time", None)
    return read is not None and "host_callbacks" in inspect.signature(read).parameters


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Within it, a program for one device that calls the host is looked for on disk before it is
    compiled, and kept there after."""
    global _inside, _original
    if jax_keeps_them() or not all(hasattr(where, name) for where, name in _NEEDS):
        yield
        return
    with _lock:
        if _inside == 0:
            _original = compiler.compile_or_get_cached
            compiler.compile_or_get_cached = _compiled_or_read
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                compiler.compile_or_get_cached = _original


def _compiled_or_read(*args: Any, **more: Any) -> Any:
    """As `compile_or_get_cached`, whose arguments are backend, module, devices, options, callbacks
    and the devices again as XLA lists them."""
    compiled = _original
    if more or len(args) < 6 or not args[4] or args[2].size != 1:
        return compiled(*args, **more)
    backend, module, devices, options, callbacks, listed = args[:6]
    if not compilation_cache.is_cache_used(backend):
        return compiled(*args)
    # JAX looks under its own key too, and would load the program without callbacks
    key = compilation_cache.get_cache_key(module, devices, options, backend) + "-host"
    with _excused("read"):
        if (found := _read(backend, key)) is not None:
            return backend.deserialize_executable(found, listed, options, callbacks)
    began = time.monotonic()
    program = compiled(*args)
    seconds = time.monotonic() - began
    if seconds >= getattr(jax.config, _LEAST_SECONDS):
        with _excused("kept"):
            compilation_cache.put_executable_and_time(
                key, "calls the host", program, backend, int(seconds)
            )
    return program


def _read(backend: Any, key: str) -> bytes | None:
    """A serialized program; None where there is none."""
    cache = compilation_cache._get_cache(backend)
    stored = None if cache is None else cache.get(key)
    if stored is None:
        return None
    whole = compilation_cache.decompress_executable(stored)
    program: bytes = compilation_cache.extract_executable_and_time(whole)[0]
    return program


@contextlib.contextmanager
def _excused(what: str) -> Iterator[None]:
    """A damaged file or a full disk costs time, not the run."""
    try:
        yield
    except Exception as error:
        warnings.warn(f"a compiled program could not be {what}: {error}", stacklevel=2)
