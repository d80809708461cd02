"""How much memory a run uses, read often and cheaply while it runs."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.hardware import nvidia
from jaxrl_hw.hardware.malloc import trim

# Asking the driver takes 1 to 200 ms; memory in a training loop changes far slower than this.
_DRIVER_PERIOD_S = 10.0


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
        self._asked_at = -_DRIVER_PERIOD_S
        self._driver: tuple[int, str] | None = None
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
        in_use, peak = _resident_bytes()
        self._seen = max(self._seen, in_use, peak)
        return MemoryUse(in_use, self._seen, "resident")


def _reset_peak() -> None:
    """Let Linux's high-water mark start again from what is resident now, where it allows that."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _resident_bytes() -> tuple[int, int]:
    """Resident bytes of this process and their peak, by Linux; psutil has no peak elsewhere."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        in_use, peak = (1024 * int(fields[key].split()[0]) for key in ("VmRSS", "VmHWM"))
    except (OSError, KeyError, ValueError):
        import psutil

        in_use = peak = int(psutil.Process().memory_info().rss)
    return in_use, peak
