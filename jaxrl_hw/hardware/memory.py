"""The memory that a run uses, read often and cheaply, and what malloc keeps of it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.hardware import nvidia

# Asking the driver takes 1 to 200 ms; memory in a training loop changes far slower than this.
_DRIVER_PERIOD_S = 10.0

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
_USER_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
"""How users set the same; or by glibc.malloc.* in GLIBC_TUNABLES."""

LARGE = 2 * 2**20
"""Arrays of this size on, bytes, are mapped on their own. Page faults cost up to 3 % of a CPU's
speed; with 256 KiB it was 3 to 17 %, and with 4 MiB up to 55 MB of 1 GB lay unused."""


class MemoryUse(NamedTuple):
    """Bytes in use now, and the most since the watch began; None where unknown."""

    in_use: int | None
    peak: int | None
    source: str
    """memory_stats, nvml, nvidia-smi, resident or unknown."""


class MemoryWatch:
    """Device memory on a gpu or tpu, the process's resident memory on a cpu.

    The driver's figures (nvml, nvidia-smi) include other programs and are asked for every 10 s at
    most, so their peak is the highest of what was seen.
    """

    def __init__(self, platform: str) -> None:
        self._on_device = platform in ("gpu", "tpu")
        self._ask_driver = platform == "gpu"
        self._seen = 0
        self._driver: tuple[int, str] | None = None
        self._asked_at = -_DRIVER_PERIOD_S
        self.compiling: int | None = None
        """The peak before `begin`, bytes: that of the compilation."""
        self.held: int | None = None
        """What a process on a CPU held at `begin`, bytes."""
        if not self._on_device:
            _reset_peak()

    def begin(self) -> None:
        """Begin the run: free what the compiler held, and let the peak start again."""
        if self._on_device:
            return
        self.compiling = self.read().peak
        trim()
        _reset_peak()
        self._seen = 0
        self.held = self.read().in_use

    def read(self) -> MemoryUse:
        """Memory in use and its peak, bytes. Well under 1 ms on a CPU. Never raises."""
        try:
            in_use, peak, source = self._device() if self._on_device else _resident()
        except Exception:  # a figure on the console must never end a run
            in_use, peak, source = None, 0, "unknown"
        self._seen = max(self._seen, in_use or 0, peak)
        return MemoryUse(in_use, self._seen or None, source)

    def _device(self) -> tuple[int | None, int, str]:
        """Bytes in use, their peak as far as the device knows it, and the source."""
        if jax := sys.modules.get("jax"):
            stats = jax.local_devices()[0].memory_stats() or {}
            in_use = int(stats.get("bytes_in_use") or 0)
            if in_use > 0:
                return in_use, int(stats.get("peak_bytes_in_use") or 0), "memory_stats"
        now = time.monotonic()
        if self._ask_driver and now - self._asked_at >= _DRIVER_PERIOD_S:
            self._driver = nvidia.memory_in_use(os.environ)
            self._asked_at = now
            # A driver that is slow to say nothing is not asked again.
            self._ask_driver = self._driver is not None
        known, source = self._driver or (None, "unknown")
        return known, 0, source


def _reset_peak() -> None:
    """Let Linux's high-water mark start again from what is resident now, where it allows that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _resident() -> tuple[int, int, str]:
    """Resident bytes of this process and their peak, by Linux; psutil has no peak elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        in_use, peak = (1024 * int(fields[key].split()[0]) for key in ("VmRSS", "VmHWM"))
    except (OSError, KeyError, ValueError):
        import psutil

        in_use = peak = int(psutil.Process().memory_info().rss)
    return in_use, peak, "resident"


def map_large(environment: Mapping[str, str] = os.environ) -> bool:
    """Return large arrays to the system as soon as they are freed, in the whole process.

    By default glibc keeps freed pieces of up to 32 MiB, and the next arrays do not fit into what a
    train step freed. A `go1` of 4,096 environments took 736 MB with that, and 706 MB without.

    Returns:
      Whether it is set. Not where the environment sets it, nor with another C library.
    """
    tuned = "glibc.malloc." in environment.get("GLIBC_TUNABLES", "")
    if tuned or any(environment.get(name) for name in _USER_VARIABLES):
        return False
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mapped = mallopt(_MMAP_THRESHOLD, LARGE)
        return bool(mapped and mallopt(_TRIM_THRESHOLD, 2 * LARGE))
    return False


def trim() -> None:
    """Return freed memory to the system: after a compilation that is hundreds of megabytes.

    Without glibc this only collects Python's garbage. Takes up to a tenth of a second.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
