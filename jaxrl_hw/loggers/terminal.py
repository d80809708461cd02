"""The kind of output: a terminal that can be redrawn, or a pipe, a file, a notebook."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Container, Mapping
from typing import IO, Any

from rich.console import Console as RichConsole
from rich.table import Table

# A command in a notebook's cell ("!python -m ...") has a pseudo-terminal, but the cell shows every
# redrawing as new lines. Jupyter sets the first variable in kernels, the clouds set the others.
_NOTEBOOK_VARIABLES = ("JPY_PARENT_PID", "COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE")


class SteadyConsole(RichConsole):
    """A rich console that survives a closed pipe (`| head`) or terminal: the run continues."""

    def on_broken_pipe(self) -> None:
        """Print nothing from now on; rich itself would exit."""
        self.quiet = True
        with contextlib.suppress(OSError, ValueError):
            # Python flushes stdout once more at exit, which would fail again.
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.file.fileno())
            os.close(null)

    def print(self, *objects: Any, **options: Any) -> None:
        """As rich prints; nothing once the terminal is closed."""
        try:
            super().print(*objects, **options)
        except OSError:
            self.quiet = True


def can_redraw(stream: IO[str], environ: Mapping[str, str] = os.environ) -> bool:
    """Whether lines on this stream can be drawn over: a terminal, and not a notebook's."""
    if in_notebook() or any(environ.get(name) for name in _NOTEBOOK_VARIABLES):
        return False
    if environ.get("TERM", "") in ("dumb", "unknown"):
        return False
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def in_notebook() -> bool:
    """Whether this very process is a notebook's kernel."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    # ZMQInteractiveShell is Jupyter's, Shell is Colab's; a terminal's IPython is another.
    return type(shell).__name__ in ("ZMQInteractiveShell", "Shell")


def make_console(stream: IO[str], redraw: bool, width: int | None) -> SteadyConsole:
    """A console on the stream that never fails on a character the stream cannot show."""
    reconfigure = getattr(stream, "reconfigure", None)
    if callable(reconfigure):
        with contextlib.suppress(OSError, ValueError):
            reconfigure(errors="replace")
    return SteadyConsole(
        file=stream, force_terminal=redraw, force_jupyter=False, width=width, highlight=False
    )


def make_table(
    *columns: str, title: str | None = None, no_wrap: Container[int] = (), **look: Any
) -> Table:
    """A table with no rows yet; the cells of a column named ">size" stand to the right.

    no_wrap: places of the columns that stay on one line; the others fold.
    """
    table = Table(title=title, title_justify="left", title_style="bold", **look)
    for place, name in enumerate(columns):
        side: Any = "right" if name.startswith(">") else "left"
        fold: Any = {"no_wrap": True} if place in no_wrap else {"overflow": "fold"}
        table.add_column(name.removeprefix(">"), justify=side, **fold)
    return table
