"""Why a run stops before its goal: a signal, the time limit, or a return that no longer grows."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from types import FrameType
from typing import Any

import psutil

Callback = Callable[[dict[str, Any]], bool | None]

GOAL, EARLY_STOP, CALLBACK = "goal", "early stop", "callback"
FINISHED = (GOAL, EARLY_STOP)
"""Values of `Run.ended` of a run with nothing left to do."""

WINDOW = 60_000
"""Env steps whose returns are averaged: an iteration's depends on which episodes happened to end.
"""

_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # SIGHUP: the terminal or the ssh session is gone


def process_start() -> float:
    """When this process began, seconds since 1970: imports and compilation count too."""
    try:
        return float(psutil.Process().create_time())
    except psutil.Error:  # an approximate start is better than no limit
        return time.time() - time.process_time()


class StopRequest:
    """Requests to stop: signals that arrive while it is entered, and the time limit.

    Only the main thread can handle signals; in another thread only the time limit counts. The first
    signal requests a stop after the current iteration. A second Ctrl-C raises KeyboardInterrupt at
    once. Leaving restores the previous handlers.

    Args:
      time_limit_s: seconds from the start of this process; None for no limit.
      reserve_s: seconds before the limit that are kept free for the last save.
    """

    def __init__(self, time_limit_s: float | None = None, reserve_s: float = 30.0) -> None:
        self._deadline: float | None = None
        if time_limit_s is not None:
            # From here on the monotonic clock counts: a wall clock may be set while a run is going.
            spent = max(0.0, time.time() - process_start())
            reserve = min(reserve_s, time_limit_s / 2)
            self._deadline = time.monotonic() + time_limit_s - spent - reserve
        self._reason: str | None = None
        self._signalled = False
        self._previous: dict[int, Any] = {}

    @property
    def requested(self) -> str | None:
        """Why to stop: SIGINT, SIGTERM, SIGHUP or "time limit"; None to continue."""
        return self._reason

    def remaining(self) -> float | None:
        """Seconds until the last save must begin; negative when past, None without a limit."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def check(self, expected_iteration_s: float) -> str | None:
        """`requested`, or "time limit" where another iteration of that many seconds is too long."""
        left = self.remaining()
        if self._reason is None and left is not None and left < expected_iteration_s:
            self._reason = "time limit"
        return self._reason

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for name in _SIGNALS:
                number = getattr(signal, name, None)
                if number is None:
                    continue
                if name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN:
                    continue  # started with nohup: the run must outlive its terminal
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            # None: C code installed it, and Python cannot restore it.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._signalled and number == signal.SIGINT:
            raise KeyboardInterrupt
        self._signalled = True
        self._reason = signal.Signals(number).name
        hint = "; Ctrl-C again quits at once" if number == signal.SIGINT else ""
        text = f"\n{self._reason}: stopping after this iteration, then saving{hint}\n"
        # Not print: the handler may interrupt another print.
        with contextlib.suppress(OSError):
            os.write(2, text.encode())


class EarlyStop:
    """Decides that the mean return has not grown for too long.

    The decision depends on the returns alone, so feeding those of earlier sessions gives the same
    result as one long session. Returns of different curriculum stages cannot be compared: the
    comparison restarts with every stage, and never stops a run before its last stage has begun.

    Args:
      patience: env steps without a better mean return before the run stops.
      min_delta: a mean return is better if it exceeds the best one by more than this.
      last_stage: index of the curriculum's last stage; 0 without a curriculum.
    """

    def __init__(self, patience: int, min_delta: float = 0.0, last_stage: int = 0) -> None:
        self.patience, self.min_delta, self.last_stage = patience, min_delta, last_stage
        self.best = -math.inf
        self._stage = self._done = 0
        self._since: int | None = None  # env step of the best mean; None before the first
        self._first = 0  # env step at which the returns begin
        self._recent: deque[tuple[int, float]] = deque()  # (env steps, return)

    def feed(self, episode_return: float | None, env_steps: int, stage: int = 0) -> bool:
        """Add an iteration's return; whether the run is to stop.

        Args:
          episode_return: mean over the episodes that ended; None before the first.
          env_steps: that the run has done by the iteration's end.
          stage: index of the curriculum stage in which the iteration was collected.
        """
        began, self._done = self._done, env_steps
        if stage != self._stage:
            self._stage, self.best, self._since = stage, -math.inf, None
            self._recent.clear()
        if episode_return is None or not math.isfinite(episode_return):
            return self.is_over
        if not self._recent:
            self._first = began
        self._recent.append((env_steps, episode_return))
        while self._recent[0][0] <= env_steps - WINDOW:
            self._recent.popleft()
        mean = sum(value for _, value in self._recent) / len(self._recent)
        is_whole = env_steps - self._first >= WINDOW  # else too few to compare their mean
        if is_whole and mean > self.best + self.min_delta:
            self.best, self._since = mean, env_steps
        return self.is_over

    @property
    def is_over(self) -> bool:
        if self._since is None or self._stage < self.last_stage:
            return False
        return self._done - self._since >= self.patience

    def __str__(self) -> str:
        more = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return f"no mean return above {self.best:.4g}{more} in {self.patience:,} env steps"
