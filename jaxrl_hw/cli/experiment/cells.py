"""Trains the runs of an experiment, each in a process of its own."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.checkpointing.files import disk_errors, write_json
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.command import BAD_INPUT, DONE, STOPPED
from jaxrl_hw.cli.experiment.manifest import Cell
from jaxrl_hw.cli.run_summary import DONE as AT_GOAL
from jaxrl_hw.cli.run_summary import summarize
from jaxrl_hw.config.saved import read_settings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Outcome(NamedTuple):
    """How a run of an experiment stands."""

    name: str
    status: str
    """done, stopped (saved, goes on with the same command), failed, or waiting."""
    log: str
    """The file with what its training printed; "" where it was done before or has not begun."""
    why: str
    """Of a failure: the last line that it printed."""


class Cells:
    """The runs of an experiment in a folder.

    A run that is done is left alone, one that has begun continues, and one that fails does not keep
    the others from being trained.
    """

    def __init__(self, folder: Path, cells: Sequence[Cell], say: Callable[[str], None]) -> None:
        self.folder, self._cells, self._say = folder, cells, say
        self._process: subprocess.Popen[bytes] | None = None
        self._asked_to_stop = False

    def train(self) -> list[Outcome]:
        """Train what is not done, one run after the other; how every run stands.

        SIGTERM and SIGINT stop the run that is trained, saved, and begin no other.

        Raises:
          RunError: the disk refuses.
        """
        with disk_errors(f"write in {self.folder}"):
            (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        with self._stopping():
            return [self._train(i, cell) for i, cell in enumerate(self._cells, 1)]

    def run_folder(self, name: str) -> Path:
        """Folder of the run of that name."""
        return self.folder / name

    def _train(self, number: int, cell: Cell) -> Outcome:
        head = f"{number} of {len(self._cells)}: {cell.name}"
        if self._is_done(cell):
            self._say(f"{head}: done before")
            return Outcome(cell.name, "done", "", "")
        if self._asked_to_stop:
            return Outcome(cell.name, "waiting", "", "")
        settings = self.folder / "logs" / f"{cell.name}.json"
        log = settings.with_suffix(".log")
        write_json(settings, cell.settings)
        self._say(f"{head}: training, {log}")
        code = self._run(["--config", str(settings)], cell, log)
        status = {DONE: "done", STOPPED: "stopped"}.get(code, "failed")
        why = ""
        if status == "failed":
            lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
            why = next((line for line in reversed(lines) if line.strip()), f"exit code {code}")
        if code == BAD_INPUT:
            why += " (nothing was changed)"
        self._say(f"{head}: {status}{f': {why}' if why else ''}")
        return Outcome(cell.name, status, str(log), why)

    def _is_done(self, cell: Cell) -> bool:
        """Whether the run has reached its goal with the settings that the manifest has now."""
        folder = self.run_folder(cell.name)
        if summarize(folder).status != AT_GOAL:
            return False
        return cell.is_of(read_settings(RunDir(folder)) or {})

    def _run(self, words: list[str], cell: Cell, log: Path) -> int:
        command = [sys.executable, "-m", "jaxrl_hw.train", *words]
        command += ["--robot", str(cell.settings["robot"])]  # imports one of the user's own
        command += ["--run-dir", str(self.run_folder(cell.name))]
        with disk_errors(f"write {log}"), open(log, "ab") as file:
            # a session of its own: a signal of the terminal reaches it once, through us
            self._process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
            )
            if self._asked_to_stop:
                self._process.terminate()
            code = self._process.wait()
        self._process = None
        return code

    @contextlib.contextmanager
    def _stopping(self) -> Iterator[None]:
        def stop(number: int, frame: object) -> None:
            self._asked_to_stop = True
            self._say("stopping: the run is saved first")
            if self._process is not None:
                self._process.terminate()

        before = {number: signal.signal(number, stop) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
