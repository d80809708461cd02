"""What a run shows in a notebook's cell: one block that is drawn anew in place, with its curves."""

from __future__ import annotations

import base64
import contextlib
import io
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from rich.table import Table

from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.jsonl import jsonable
from jaxrl_hw.loggers.progress import RunProgress
from jaxrl_hw.loggers.terminal import make_console

_TEXT_EVERY_S = 1.0
_PLOT_EVERY_S = 4.0
_PLOT_SHARE = 0.02
"""Most of the time that may go into drawing curves."""
_LINES = 12
"""Messages that stay in sight; `console.log` in the run's folder keeps all."""
_POINTS = 400
"""Most points of a curve."""
_CURVES = {
    "episode_return": "return per episode",
    "tracking_error": "velocity error, m/s",
    "episode_length": "steps per episode",
}
"""The first two that a run has are drawn."""
_PRE = 'style="white-space: pre-wrap; font-family: monospace; margin: 0 0 6px 0; line-height: 1.35"'

Display = Callable[..., Any]
"""As IPython.display.display: takes a dict of formats with raw=True, gives a handle to update."""


class NotebookScreen:
    """The output of a `Console` in a notebook, with its methods.

    display: shows a block and returns a handle whose `update` replaces it; IPython's by default.
    clock: seconds that never go back.
    """

    def __init__(
        self, display: Display | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._display, self._clock = display or _ipythons(), clock
        self._lock = threading.RLock()
        self._progress = RunProgress(make_console(io.StringIO(), False, 200), clock)
        self._history: list[dict[str, Any]] = []
        self._lines: list[str] = []
        self._handle: Any = None
        self._doing = self._picture = ""
        self._drawn_at = self._plot_at = -1e9
        self._plot_cost = 0.0
        self._share = 0.0

    def plan(self, rows: Sequence[tuple[str, str]]) -> None:
        """Show a table of names and values."""
        cells = "".join(
            f'<tr><td style="text-align: left; opacity: 0.65; vertical-align: top; '
            f'white-space: nowrap">{escape(name)}</td>'
            f'<td style="text-align: left">{escape(value)}</td></tr>'
            for name, value in rows
        )
        plain = "\n".join(f"{name:14} {value}" for name, value in rows)
        self._display(_formats(f"<table>{cells}</table>", plain), raw=True, display_id=True)

    @contextlib.contextmanager
    def compiling(self, label: str) -> Iterator[None]:
        """Show a long operation, such as "compiling train step", and in the end its seconds."""
        began = self._clock()
        self._doing = f"{label} ..."
        self._draw()
        try:
            yield
        finally:
            self._doing = ""
        self.message(f"{label}: {formats.duration(self._clock() - began)}")

    def progress(self, row: Mapping[str, Any]) -> None:
        """Show the row of an iteration: the keys of metrics.jsonl, `goal`, `tracking_error`."""
        with self._lock:
            seen = jsonable(dict(row))
            self._progress.advance_to(seen)
            goal = seen.get("goal")
            self._share = min(1.0, seen["iteration"] / goal) if goal else 0.0
            if len(self._history) >= 4 * _POINTS:
                del self._history[1::2]
            self._history.append({x: seen.get(x) for x in ("iteration", "env_steps", *_CURVES)})
            if self._clock() - self._drawn_at >= _TEXT_EVERY_S:
                self._draw()

    def show(self, table: Table) -> None:
        """Show a table as text."""
        text = io.StringIO()
        make_console(text, False, 100).print(table)
        self.message(text.getvalue().rstrip())

    def message(self, text: str) -> None:
        """Add a line above the progress."""
        with self._lock:
            self._lines.append(escape(text))
            self._draw()

    def warning(self, text: str) -> None:
        """Add a line that stands out."""
        with self._lock:
            self._lines.append(f'<span style="color: #b8860b">warning: {escape(text)}</span>')
            self._draw()

    def finish(self, summary: str) -> None:
        """End the progress, then add a closing line."""
        with self._lock:
            self._lines.append(f"<b>{escape(summary)}</b>")
            self.close()

    def close(self) -> None:
        """Leave the last state, with all of the curves."""
        with self._lock:
            self._doing, self._plot_at = "", -1e9
            if self._lines or self._history:
                self._draw()

    def _draw(self) -> None:
        with self._lock:
            self._plot()
            lines = [
                *self._lines[-_LINES:],
                *([f"<i>{escape(self._doing)}</i>"] * bool(self._doing)),
            ]
            line = self._progress.line() if self._history else ""
            parts = [f"<div {_PRE}>{'<br>'.join(lines)}</div>"]
            if line:
                bar = f'<progress value="{self._share:.4f}" max="1" style="width: 100%"></progress>'
                parts += [bar if self._share else "", f"<div {_PRE}>{escape(line)}</div>"]
            block = _formats("".join([*parts, self._picture]), line or "\n".join(lines))
            if self._handle is None:
                self._handle = self._display(block, raw=True, display_id=True)
            else:
                self._handle.update(block, raw=True)
            self._drawn_at = self._clock()

    def _plot(self) -> None:
        every = max(_PLOT_EVERY_S, self._plot_cost / _PLOT_SHARE)
        if len(self._history) < 2 or self._clock() - self._plot_at < every:
            return
        began = time.monotonic()
        data = base64.b64encode(curves(self._history)).decode()
        self._picture = f'<img style="max-width: 100%" src="data:image/png;base64,{data}">'
        self._plot_cost, self._plot_at = time.monotonic() - began, self._clock()


def curves(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """A PNG of the first two curves of `_CURVES` that the rows have, over env steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import EngFormatter

    rows = rows[:: max(1, len(rows) // _POINTS)]
    names = [name for name in _CURVES if any(row.get(name) is not None for row in rows)][:2]
    figure = Figure(figsize=(9.0, 2.4), dpi=80, layout="constrained")
    FigureCanvasAgg(figure)
    steps = [row.get("env_steps") or row["iteration"] for row in rows]
    label = "env steps" if rows[-1].get("env_steps") else "iteration"
    for place, name in enumerate(names):
        axis = figure.add_subplot(1, len(names), place + 1)
        values = [float("nan") if row.get(name) is None else row[name] for row in rows]
        axis.plot(steps, values, linewidth=1.4, color=("#1f77b4", "#d9662b")[place])
        axis.set_title(_CURVES[name], fontsize=9, loc="left")
        axis.set_xlabel(label, fontsize=8)
        axis.xaxis.set_major_formatter(EngFormatter(sep=""))
        axis.tick_params(labelsize=8)
        axis.grid(alpha=0.3)
    stream = io.BytesIO()
    figure.savefig(stream, format="png")
    return stream.getvalue()


def _ipythons() -> Display:
    from IPython import display

    return display.display


def _formats(html: str, plain: str) -> dict[str, str]:
    return {"text/html": html, "text/plain": plain}
