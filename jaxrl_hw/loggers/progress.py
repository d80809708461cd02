"""The progress of a run: a rich progress display for terminals, one plain line for pipes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich.columns import Columns
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.jsonl import jsonable

_PACE_S = 60.0
"""The pace is that of the last minute, or of the last iteration where one takes longer."""
_BAR_FROM = 80
"""Columns; a narrower terminal has no room for a bar beside the counts."""
_FACTS = (
    ("episode_return", "return {}", formats.figure),
    ("episode_length", "length {}", formats.figure),
    ("tracking_error", "error {}", formats.figure),
    ("env_steps_per_s", "{} steps/s", formats.count),
    ("iterations_per_min", "{} it/min", formats.figure),
    ("memory_bytes", "{}", formats.size),
    ("gpu/utilization", "GPU {} %", formats.count),
    ("gpu/temperature", "{} C", formats.count),
    ("gpu/power", "{} W", formats.count),
)


class RunProgress(Progress):
    """The iterations of a run as a task of rich's Progress.

    console: its width decides whether there is a bar.
    clock: seconds that never go back.
    """

    def __init__(self, console: Console, clock: Callable[[], float]) -> None:
        self._row: dict[str, Any] = {}
        self._row_at = clock()
        self._wide = console.width >= _BAR_FROM
        head = TextColumn("[bold]{task.description}")
        bar = (head, BarColumn(), TextColumn("{task.percentage:3.0f}%"), _Clock(self))
        super().__init__(
            *(bar if self._wide else (head,)),
            console=console,
            speed_estimate_period=_PACE_S,
            get_time=clock,
        )
        self.add_task("", total=None)
        (self._run,) = self.tasks

    @property
    def finished(self) -> bool:
        """Whether the goal is reached."""
        return self._run.finished

    def advance_to(self, row: Mapping[str, Any]) -> None:
        """Take the row of a completed iteration.

        row: the keys of metrics.jsonl, `goal` (iterations or None) and, for a walking robot,
            `tracking_error`.
        """
        self._row, self._row_at = jsonable(row), self.get_time()
        iteration, goal = int(self._row.get("iteration") or 0), self._row.get("goal")
        of_goal = "" if goal is None else f"/{formats.count(goal)}"
        text = f"iteration {formats.count(iteration)}{of_goal}"
        self.update(self._run.id, completed=iteration, total=goal, description=text)

    def line(self) -> str:
        """Everything in one line."""
        return "  ".join([self._run.description, *self._facts(), self.clock()])

    def clock(self) -> str:
        """`after 3m 20s, 12m 05s left`"""
        left = None if self.finished else self._remaining()
        ahead = "" if left is None else f", {formats.duration(left)} left"
        return f"after {formats.duration(self._run.elapsed)}{ahead}"

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and under it the facts in as many columns as fit."""
        yield self.make_tasks_table(self.tasks)
        if self._row:
            facts = self._facts() + ([] if self._wide else [self.clock()])
            yield Padding(Columns(facts, padding=(0, 2)), (0, 0, 0, 2))

    def _facts(self) -> list[str]:
        """The figures of the row, the most important first."""
        row = self._row
        return [text.format(show(row[name])) for name, text, show in _FACTS if name in row]

    def _remaining(self) -> float | None:
        """Seconds to the goal at the recent pace, counting down between rows; None if unknown."""
        speed = self._run.speed or (self._row.get("iterations_per_min") or 0.0) / 60.0
        if self._run.remaining is None or not speed:
            return None
        return max(0.0, self._run.remaining / speed - (self.get_time() - self._row_at))


class _Clock(ProgressColumn):
    """Elapsed and remaining time, as in a plain line."""

    def __init__(self, progress: RunProgress) -> None:
        super().__init__(Column(no_wrap=True))
        self._progress = progress

    def render(self, task: Task) -> Text:
        return Text(self._progress.clock())
