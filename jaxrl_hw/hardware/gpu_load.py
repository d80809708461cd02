"""How busy, warm and hungry the GPU is, asked every 10 s beside the training."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from jaxrl_hw.hardware.nvidia import read_nvml

PERIOD_S = 10.0
_WATCHED_S = 60.0
_IDLE = 50.0
"""Percent; a card that is used less, over a minute, would take more environments."""


class Load(NamedTuple):
    """What the driver says; None where it does not."""

    utilization: float | None
    """Percent of the time in which a kernel ran."""
    temperature: float | None
    """Degrees Celsius."""
    power: float | None
    """W."""


Read = Callable[[], Load | None]


def read_load(environ: Mapping[str, str] = os.environ) -> Load | None:
    """The load of the first GPU that CUDA_VISIBLE_DEVICES leaves visible, by NVML; None where that
    does not answer. Never raises. Takes 1 to 200 ms."""
    gpus = read_nvml(environ).gpus
    if not gpus:
        return None
    try:
        import pynvml as nvml

        nvml.nvmlInit()
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(gpus[0].uuid)
            return Load(
                _figure(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
                _figure(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
                _figure(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0),
            )
        finally:
            nvml.nvmlShutdown()
    except Exception:  # a driver fails in every way there is
        return None


def _figure(read: Callable[[], Any]) -> float | None:
    """A figure; None where this card or driver has none."""
    try:
        return float(read())
    except Exception:
        return None


class GpuWatch:
    """The load of the last 10 s, as metrics, and one warning where the card idles.

    read: gives the load now; None watches nothing. It may hang: it runs in a thread of its own, and
        `figures` then keeps what was seen last.
    warn: given the warning.
    clock: seconds that never go back.
    """

    def __init__(
        self,
        read: Read | None,
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._warn, self._clock = read, warn, clock
        self._figures: dict[str, float] = {}
        self._seen: deque[tuple[float, float]] = deque()  # (time, utilization)
        self._has_warned = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Ask from now on, unless that has begun: compilation does not count."""
        if self._read is not None and self._thread is None:
            self._thread = threading.Thread(target=self._ask, name="gpu", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ask no more; a question that hangs is left alone."""
        self._closed.set()

    def figures(self) -> dict[str, float]:
        """gpu/utilization (%), gpu/temperature (degrees C) and gpu/power (W), as far as known."""
        return self._figures

    def ask(self) -> None:
        """Ask once."""
        load = self._read() if self._read is not None else None
        known = {} if load is None else load._asdict()
        self._figures = {f"gpu/{name}": x for name, x in known.items() if x is not None}
        if load is not None and load.utilization is not None:
            self._judge(load.utilization)

    def _judge(self, utilization: float) -> None:
        now = self._clock()
        self._seen.append((now, utilization))
        if now - self._seen[0][0] < _WATCHED_S or self._has_warned:
            return
        mean = sum(x for _, x in self._seen) / len(self._seen)
        self._seen.popleft()
        if mean < _IDLE:
            self._has_warned = True
            self._warn(
                f"the GPU is busy {mean:.0f} % of the time only: plan --probe measures which "
                "number of environments is faster"
            )

    def _ask(self) -> None:
        while True:
            try:
                self.ask()
            except Exception:  # a figure on the console must never end a run
                self._figures = {}
            if self._closed.wait(PERIOD_S):
                return
