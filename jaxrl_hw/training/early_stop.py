"""Stopping a run whose return no longer grows."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection

WINDOW = 10
"""Iterations whose returns are averaged: a single one is an accident of which episodes ended."""


class EarlyStop:
    """Tells when the mean return has not grown for too long.

    It depends on the returns alone: fed with those of earlier sessions it decides as one session
    would have.

    patience: iterations without a better mean return before the run stops.
    min_delta: by how much a mean return must pass the best one to be better.
    turns: iterations, the first is 1, with which what is rewarded changes: returns of before and
        after cannot be compared, so it begins anew, and before the last of them it never stops.
    """

    def __init__(self, patience: int, min_delta: float = 0.0, turns: Collection[int] = ()) -> None:
        self.patience, self.min_delta, self.turns = patience, min_delta, turns
        self.best, self.waited = -math.inf, 0
        self._fed = 0
        self._recent: deque[float] = deque(maxlen=WINDOW)

    def feed(self, episode_return: float | None) -> bool:
        """Take in an iteration's return; whether the run is to stop. None: no episode has ended."""
        self._fed += 1
        if self._fed in self.turns:
            self.best = -math.inf
            self._recent.clear()
        self.waited += 1
        if episode_return is not None and math.isfinite(episode_return):
            self._recent.append(episode_return)
            mean = sum(self._recent) / len(self._recent)
            if len(self._recent) == WINDOW and mean > self.best + self.min_delta:
                self.best, self.waited = mean, 0
        if len(self._recent) < WINDOW:  # there is no mean yet to be better than
            self.waited = 0
        return self.is_over

    @property
    def is_over(self) -> bool:
        return self.waited >= self.patience and self._fed >= max(self.turns, default=0)

    def __str__(self) -> str:
        more = f" by more than {self.min_delta:g}" if self.min_delta else ""
        return f"no mean return above {self.best:.4g}{more} in {self.patience:,} iterations"
