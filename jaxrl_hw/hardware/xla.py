"""XLA's and JAX's process-wide settings; nothing here imports jax.

JAX reads its `JAX_*` variables when it is imported and XLA's memory variables when it first touches
a device. Set later they do nothing, silently, so every setting is returned with what became of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.hardware.detect import usable_cores
from jaxrl_hw.types.process import backend_running, cache_folder

ASYNC_DISPATCH = "jax_cpu_enable_async_dispatch"

# Of the whole card. The pool grows on demand, so a high limit costs other programs nothing, while
# XLA's own default of 0.75 would refuse memory that the size of the run was computed from.
_LIMIT_ON_DEMAND = 0.92

_DETERMINISTIC = "--xla_gpu_deterministic_ops=true"

SPARE_WORKERS = 4
"""Threads of XLA's pool on a CPU beyond one per core, see `spare_workers`."""

_FALSE = ("0", "false", "no", "off")


class Setting(NamedTuple):
    """One setting and who decided it."""

    name: str
    """The environment variable, or the jax.config option where JAX reads no variable."""
    value: str
    """The value; with `too late`, the one that could not be applied."""
    origin: str
    """set (by this package), user (it was in the environment), too late (jax was running already)
    or pending (`apply_pending` after `import jax` applies it)."""


_pending: list[bool] = []
"""The value of `ASYNC_DISPATCH` that waits for jax."""
_set_here: dict[str, str] = {}
"""What this module has put into the environment: a later call must not take it for the user's."""


def default_cache_dir() -> Path:
    """Where compiled programs are kept."""
    return cache_folder() / "xla"


def configure(
    *,
    fraction: float | None,
    ceiling: float | None = None,
    cache_dir: Path | None,
    platform: str,
    host_callback: bool,
    deterministic: bool = False,
    factorizes: bool = True,
    devices: int = 1,
) -> list[Setting]:
    """Set what JAX and XLA read at their start; what the user has set stays.

    fraction: share (0 to 1) of the accelerator's whole memory, reserved at once so that no other
        program can take it during the run; None grows on demand.
    ceiling: share up to which it may grow on demand; None is nearly all of it.
    cache_dir: folder of the persistent compilation cache; None is `default_cache_dir()`.
    platform: cpu, gpu or tpu; the memory settings concern a gpu only.
    host_callback: the compiled program calls back into Python (native physics). XLA's CPU client
        may then run inline in the calling thread only, see `inline_dispatch`. It does so on a CPU
        without one too (MJX), where its pool gets more threads.
    deterministic: a gpu's results are to repeat to the bit.
    factorizes: without a host callback the program may factorize matrices on a CPU.
    devices: that the program runs on.

    Call it before `import jax`, and `apply_pending()` after it.
    """
    settings = []
    if "jaxlib" not in sys.modules:  # jaxlib writes its own default there when it is imported
        settings.append(_variable("TF_CPP_MIN_LOG_LEVEL", "2"))
    if platform == "gpu":
        settings += _memory(fraction, ceiling)
        settings += [_deterministic()] if deterministic else []
    settings += _cache(cache_dir or default_cache_dir())
    if host_callback or platform == "cpu":
        settings.append(inline_dispatch())
    if platform == "cpu" and (devices > 1 or (factorizes and not host_callback)):
        settings.append(spare_workers(devices))
    return settings


def apply_pending() -> list[Setting]:
    """Apply what only jax.config can set; call it after `import jax`, before any computation.

    Returns what was applied; nothing where nothing was pending or jax is not imported yet.
    """
    if "jax" not in sys.modules or not _pending:
        return []
    config, value = sys.modules["jax"].config, _pending.pop()
    late = backend_running() and getattr(config, ASYNC_DISPATCH, None) != value
    if not late:
        config.update(ASYNC_DISPATCH, value)
    return [Setting(ASYNC_DISPATCH, str(value).lower(), "too late" if late else "set")]


def _variable(name: str, value: str, *, late: bool = False) -> Setting:
    present = os.environ.get(name)
    if present is not None and _set_here.get(name) != present:
        return Setting(name, present, "user")
    if late and present != value:
        return Setting(name, value, "too late")
    os.environ[name] = _set_here[name] = value
    return Setting(name, value, "set")


def _memory(fraction: float | None, ceiling: float | None) -> Iterator[Setting]:
    late, deprecated = backend_running(), "XLA_PYTHON_CLIENT_MEM_FRACTION"
    if old := os.environ.get(deprecated):
        # it still works alone; with the new name beside it jaxlib refuses to start
        yield Setting(deprecated, old, "user")
    else:
        share = min(ceiling or 1.0, _LIMIT_ON_DEMAND) if fraction is None else fraction
        yield _variable("XLA_CLIENT_MEM_FRACTION", f"{share:.4g}", late=late)
    reserve = "false" if fraction is None else "true"
    yield _variable("XLA_PYTHON_CLIENT_PREALLOCATE", reserve, late=late)
    if allocator := os.environ.get("XLA_PYTHON_CLIENT_ALLOCATOR"):
        yield Setting("XLA_PYTHON_CLIENT_ALLOCATOR", allocator, "user")


def _deterministic() -> Setting:
    """XLA reads XLA_FLAGS when a device is opened; flags that the user has set stay."""
    now = os.environ.get("XLA_FLAGS", "")
    if _DETERMINISTIC.partition("=")[0] in now:
        return Setting("XLA_FLAGS", now, "user" if _set_here.get("XLA_FLAGS") != now else "set")
    wanted = f"{now} {_DETERMINISTIC}".strip()
    if backend_running():
        return Setting("XLA_FLAGS", wanted, "too late")
    os.environ["XLA_FLAGS"] = _set_here["XLA_FLAGS"] = wanted
    return Setting("XLA_FLAGS", wanted, "set")


def spare_workers(devices: int = 1) -> Setting:
    """XLA's CPU client takes the size of its thread pool from NPROC.

    A batched factorization of jaxlib's waits on one of the pool's threads for work that it gave to
    the same pool: as many at once as there are threads wait for ever. With jaxlib 0.10 two do on
    two cores, and MJX's step has more than one that is ready at a time. Where nothing is factorized
    more threads than cores only cost: SAC's update on Brax's spring physics took 1.25 times the CPU
    time.

    Each of several devices of a CPU holds a thread while it waits for the others: with four devices
    and two threads an all-reduce after a host callback waits for ever.
    """
    count = usable_cores() + SPARE_WORKERS + 2 * (devices - 1)
    return _variable("NPROC", str(count), late=backend_running())


def _cache(folder: Path) -> list[Setting]:
    settings = [
        _variable("JAX_COMPILATION_CACHE_DIR", str(folder)),
        _variable("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1"),
    ]
    for name, value, origin in settings:
        if origin == "set" and "jax" in sys.modules:
            sys.modules["jax"].config.update(
                name.lower(), float(value) if name.endswith("_SECS") else value
            )
    return settings


def inline_dispatch() -> Setting:
    """Let XLA's CPU client run programs in the calling thread.

    On a thread of its own, a host callback that converts a large array waits for the very thread it
    runs on. Each such thread also has a heap of its own, which keeps what a program has freed: with
    MJX hundreds of megabytes that no other thread can use. An iteration waits for its program
    anyway. JAX ignores the variable of the option's name; a user who sets it still means it.
    """
    user = os.environ.get(ASYNC_DISPATCH.upper())
    asynchronous = user is not None and user.strip().lower() not in _FALSE
    _pending[:] = [asynchronous]
    applied = apply_pending()
    if user is not None:
        return Setting(ASYNC_DISPATCH, str(asynchronous).lower(), "user")
    return applied[0] if applied else Setting(ASYNC_DISPATCH, "false", "pending")
