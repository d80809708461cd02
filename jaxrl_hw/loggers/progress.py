"""A run's progress: what is known of it, and how it is drawn."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.segment import Segment
from rich.text import Text

from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.plain import plain

_RECENT = 20
_GAP = "  "


class Progress:
    """The latest row, and the pace of the recent ones.

    Rows hold the keys of metrics.jsonl, `goal` (iterations), and where there is one
    `tracking_error`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()
        self._row: dict[str, Any] = {}
        self._recent: deque[tuple[float, int]] = deque(maxlen=_RECENT)

    def update(self, row: Mapping[str, Any]) -> None:
        """Take in the row of an iteration that was just completed."""
        self._row = {name: plain(value) for name, value in row.items()}
        self._recent.append((self._clock(), self.iteration))

    @property
    def iteration(self) -> int:
        """Iterations done, 0 before the first row."""
        return int(self._row.get("iteration") or 0)

    @property
    def goal(self) -> int | None:
        """Iterations wanted, None if not told."""
        return self._row.get("goal")

    def elapsed(self) -> float:
        """Seconds since this session began."""
        return self._clock() - self._started

    def remaining(self) -> float | None:
        """Seconds to the goal at the recent pace, counting down between rows; None if unknown."""
        if self.goal is None or not self._recent:
            return None
        (first_s, first), (last_s, last) = self._recent[0], self._recent[-1]
        if last > first:
            per_iteration = (last_s - first_s) / (last - first)
        elif self._row.get("iterations_per_min"):
            per_iteration = 60.0 / self._row["iterations_per_min"]
        else:
            return None
        left = (self.goal - last) * per_iteration
        return max(0.0, left - (self._clock() - last_s))

    def head(self) -> str:
        """`iteration 1,234/5,000`"""
        goal = f"/{formats.count(self.goal)}" if self.goal is not None else ""
        return f"iteration {formats.count(self.iteration)}{goal}"

    def clocks(self) -> str:
        """`after 3m 20s, 12m 05s left`"""
        left = self.remaining()
        done = self.goal is not None and self.iteration >= self.goal
        ahead = f", {formats.duration(left)} left" if left is not None and not done else ""
        return f"after {formats.duration(self.elapsed())}{ahead}"

    def facts(self) -> list[str]:
        """What the row says, most wanted first."""
        row = self._row
        texts = [
            ("episode_return", "return {}", formats.figure),
            ("episode_length", "length {}", formats.figure),
            ("tracking_error", "error {}", formats.figure),
            ("env_steps_per_s", "{} steps/s", formats.count),
            ("iterations_per_min", "{} it/min", formats.figure),
            ("memory_bytes", "{}", formats.size),
        ]
        return [text.format(show(row[name])) for name, text, show in texts if name in row]

    def line(self) -> str:
        """Everything in one line, for pipes and files."""
        return "  ".join([self.head(), *self.facts(), self.clocks()])


class LiveView:
    """Draws a Progress over as many lines as the width demands: a bar, then the facts."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - 1  # the last column makes some terminals break the line
        progress = self._progress
        head, clocks = progress.head(), progress.clocks()
        done = progress.iteration / progress.goal if progress.goal else 0.0
        percent = f" {min(100, int(100 * done)):3d}%"
        room = width - len(head) - len(clocks) - len(percent) - 4
        yield Text(f"{head}  ", style="bold", end="")
        if progress.goal and room >= 8:
            bar = ProgressBar(total=1.0, completed=min(1.0, done), width=min(room, 50))
            yield from (s for s in console.render(bar, options) if s.text != "\n")
            yield Text(percent, end="")
            yield Text("  ", end="")
        yield Text(clocks, no_wrap=True, overflow="crop", end="")
        for line in pack(progress.facts(), width - 2):
            yield Segment.line()
            yield Text(f"  {line}", no_wrap=True, overflow="crop", end="")


def pack(parts: list[str], width: int) -> list[str]:
    """Join parts into as few lines of `width` characters as they fit."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(_GAP) + len(part) <= width:
            lines[-1] += _GAP + part
        else:
            lines.append(part)
    return lines
