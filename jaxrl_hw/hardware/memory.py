"""How much memory a run uses, read often and cheaply while it runs."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.hardware import nvidia
from jaxrl_hw.hardware.malloc import trim

_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
# Asking the driver takes 1 to 200 ms; memory in a training loop changes far slower than this.
_DRIVER_PERIOD_S = 10.0


class MemoryUse(NamedTuple):
    """Bytes in use now, and the most since the watch began; None where nobody knows."""

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
        self._asked_at = -_DRIVER_PERIOD_S
        self._driver: tuple[int, str] | None = None
        self.compiling: int | None = None
        """The peak before `begin`, bytes: that of the compilation."""
        self.held: int | None = None
        """What a process on a CPU held at `begin`, bytes."""
        if not self._on_device:
            _reset_peak()

    def begin(self) -> None:
        """The run begins: what the compiler held is given back, and counts for itself."""
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
            if self._on_device:
                return self._device() or self._from_driver() or MemoryUse(None, None, "unknown")
            return self._resident()
        except Exception:  # a figure on the console must never end a run
            return MemoryUse(None, self._seen or None, "unknown")

    def _device(self) -> MemoryUse | None:
        jax = sys.modules.get("jax")
        if jax is None:
            return None
        stats = jax.local_devices()[0].memory_stats() or {}
        in_use = int(stats.get("bytes_in_use") or 0)
        if in_use <= 0:
            return None
        self._seen = max(self._seen, in_use, int(stats.get("peak_bytes_in_use") or 0))
        return MemoryUse(in_use, self._seen, "memory_stats")

    def _from_driver(self) -> MemoryUse | None:
        now = time.monotonic()
        if self._ask_driver and now - self._asked_at >= _DRIVER_PERIOD_S:
            self._driver = nvidia.memory_in_use(os.environ)
            self._asked_at = now
            # A driver that is slow to say nothing is not asked again.
            self._ask_driver = self._driver is not None
        if self._driver is None:
            return None
        in_use, source = self._driver
        self._seen = max(self._seen, in_use)
        return MemoryUse(in_use, self._seen, source)

    def _resident(self) -> MemoryUse:
        for reader in _RESIDENT_READERS:
            try:
                in_use, peak = reader()
            except (ImportError, OSError, ValueError, KeyError):
                continue
            self._seen = max(self._seen, in_use, peak)
            return MemoryUse(in_use, self._seen, "resident")
        return MemoryUse(None, None, "unknown")


def _reset_peak() -> None:
    """Let Linux's high-water mark start again from what is resident now, where it allows that."""
    try:
        _CLEAR_REFS.write_text("5")
    except OSError:
        return


def _from_status() -> tuple[int, int]:
    fields = {}
    for line in _STATUS.read_text().splitlines():
        key, _, value = line.partition(":")
        if key in ("VmRSS", "VmHWM"):
            fields[key] = int(value.split()[0]) * 1024
    return fields["VmRSS"], fields["VmHWM"]


def _from_psutil() -> tuple[int, int]:
    import psutil

    info = psutil.Process().memory_info()
    return int(info.rss), int(getattr(info, "peak_wset", info.rss))  # peak_wset: Windows


def _from_resource() -> tuple[int, int]:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak *= 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return peak, peak


_RESIDENT_READERS: tuple[Callable[[], tuple[int, int]], ...] = (
    _from_status,
    _from_psutil,
    _from_resource,
)
