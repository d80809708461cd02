"""Commands from a notebook's cell: each runs in a process of its own and is shown in place.

The kernel never loads jax, so a run finds the whole accelerator free, its memory variables are set
in time, and its memory is free again when it ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import IO, Any, cast

from jaxrl_hw.cli.command import DONE, STOPPED
from jaxrl_hw.cli.trained_policy import OpenedPolicy, open_trained
from jaxrl_hw.errors import RunError
from jaxrl_hw.loggers.follow import Shown, follow
from jaxrl_hw.loggers.notebook import NotebookScreen
from jaxrl_hw.loggers.screen import Screen
from jaxrl_hw.loggers.terminal import in_notebook


def train(*flags: object, shown: Shown | None = None) -> int:
    """`python -m jaxrl_hw.train FLAGS`, with its curves drawn while it runs.

    Interrupting the cell stops the run cleanly, saved.

    Args:
      flags: of the command line, such as "--robot", "g1", "--time-limit", "85m".
      shown: where it is shown; the notebook's cell by default.

    Returns:
      The exit code. 0: the goal is reached; 75: stopped early and saved, train again to continue.

    Raises:
      RunError: it ended otherwise; the reason is shown.
    """
    shown = shown or (NotebookScreen() if in_notebook() else Screen(sys.stdout))
    with _start("train", [*flags, "--log-format", "json"], start_new_session=True) as process:
        lines = cast(IO[str], process.stdout)
        while True:
            try:
                follow(lines, shown)
                break
            except KeyboardInterrupt:
                process.send_signal(signal.SIGINT)
                shown.message("interrupted: the run saves itself and stops")
    if process.returncode not in (DONE, STOPPED):
        raise RunError(f"train ended with exit code {process.returncode}: see the lines above")
    return process.returncode


def run(name: str, *flags: object, show: bool = True) -> str:
    """`python -m jaxrl_hw.NAME FLAGS`; prints what it prints, and returns it.

    Raises:
      RunError: its exit code is not 0; has its last line.
    """
    said = []
    with _start(name, flags) as process:
        for line in cast(IO[str], process.stdout):
            said.append(line)
            if show:
                print(line, end="", flush=True)
    if process.returncode != DONE:
        last = (said or [""])[-1].strip()
        raise RunError(f"{name} ended with exit code {process.returncode}: {last}")
    return "".join(said)


def opened(source: str | Path) -> OpenedPolicy:
    """The policy of a run's folder, of a file, or of the package (zoo:NAME), on the CPU.

    Raises:
      UserError: there is none.
      RunError: every checkpoint of the run is damaged.
    """
    is_run = Path(source).expanduser().is_dir()
    named = {"run_dir": str(source) if is_run else None, "policy": None if is_run else str(source)}
    return open_trained(Namespace(**named, iteration=None, robot=None, algo=None))


def film(path: str | Path, width: int = 720) -> Any:
    """A film (.mp4) or a 3D replay (.html) of `play`, to be shown in a cell; it needs no file.

    width: pixels.
    """
    from IPython.display import HTML, Video

    path = Path(path)
    if path.suffix == ".mp4":
        return Video(str(path), embed=True, width=width, html_attributes="controls loop muted")
    page = escape(path.read_text(encoding="utf-8"), quote=True)
    size = f'width="{width}" height="{round(width * 9 / 16) + 100}"'
    return HTML(f'<div><iframe srcdoc="{page}" {size} style="border: 0"></iframe></div>')


def _start(name: str, flags: Sequence[object], **options: Any) -> subprocess.Popen[str]:
    """The command's process; what it prints on stderr comes among its lines."""
    return subprocess.Popen(
        [sys.executable, "-m", f"jaxrl_hw.{name}", *map(str, flags)],
        # a checkout that is not installed is found as the kernel has found it
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        **options,
    )
