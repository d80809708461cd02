"""How a run is asked to stop: by a signal or by the clock, at an iteration's end, saved."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # SIGHUP: the terminal or the ssh session is gone


def process_start() -> float:
    """When this process began, seconds since 1970: imports and compilation count as well."""
    try:
        import psutil

        return float(psutil.Process().create_time())
    except Exception:  # without /proc: nearly right is better than no limit
        return time.time() - time.process_time()


class StopRequest:
    """Collects requests to stop while it is entered; the previous handlers come back on leaving.

    time_limit_s: seconds from the start of this process; None for no limit.
    reserve_s: kept free before the limit for the last save.

    Signals are handled where it is entered in the main thread, and not at all elsewhere. The first
    one asks; an interrupt (Ctrl-C) after it raises KeyboardInterrupt at once.
    """

    def __init__(self, time_limit_s: float | None = None, reserve_s: float = 30.0) -> None:
        self._deadline: float | None = None
        if time_limit_s is not None:
            # Counted on the monotonic clock from here on: wall clocks are set while runs run.
            spent = max(0.0, time.time() - process_start())
            reserve = min(reserve_s, time_limit_s / 2)
            self._deadline = time.monotonic() + time_limit_s - spent - reserve
        self._reason: str | None = None
        self._signalled = False
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> str | None:
        """Why to stop: SIGINT, SIGTERM, SIGHUP or "time limit"; None to go on."""
        return self._reason

    def remaining(self) -> float | None:
        """Seconds until the last save must begin, None without a limit; negative when past."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def check(self, expected_iteration_s: float) -> str | None:
        """`requested`; "time limit" where another iteration of that many seconds is too many."""
        left = self.remaining()
        if self._reason is None and left is not None and left < expected_iteration_s:
            self._reason = "time limit"
        return self._reason

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for name in _SIGNALS:
                number = getattr(signal, name, None)
                if number is None or (name == "SIGHUP" and _is_ignored(number)):
                    continue  # started with nohup: it is to outlive its terminal
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._previous.items():
            # None: it was installed by C code, and cannot be put back from Python.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._signalled and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signalled = True
        self._reason = signal.Signals(number).name
        hint = "; Ctrl-C again quits at once" if number == signal.SIGINT else ""
        text = f"\n{self._reason}: stopping after this iteration, then saving{hint}\n"
        # Not print: a handler may run in the middle of another print.
        with contextlib.suppress(OSError):
            os.write(2, text.encode())


def _is_ignored(number: int) -> bool:
    return signal.getsignal(number) is signal.SIG_IGN
