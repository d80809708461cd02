"""Weights & Biases: a run's rows, sent by a process of its own.

The package waits for its server, prints, and hangs at exit where the network is gone. None of that
may reach a training. So it runs in another process, fed by a thread from a bounded queue: a row is
left out where that process does not keep up, and at the end it has some seconds.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers.jsonl import Warn, jsonable
from jaxrl_hw.loggers.wandb_sync import sync_command

_PROJECT = "jaxrl_hw"
_INSTALL = 'pip install "jaxrl_hw[wandb]"'
_ROWS = 1000
"""Most rows that wait."""
_QUIET = {"WANDB_SILENT": "true", "WANDB_CONSOLE": "off"}


def check_installed(mode: str) -> None:
    """Raises UserError where `--wandb offline` is asked for without the package."""
    if mode == "offline" and not _is_installed():
        raise UserError(f"--wandb offline needs the package wandb: {_INSTALL}")


def _is_installed() -> bool:
    return importlib.util.find_spec("wandb") is not None


class WandbLog:
    """One run's rows. Nothing here raises or waits, but `close` waits for `patience_s`.

    Args:
      mode: off, auto or offline.
      say, warn: given a line for the user; may be called from any thread.
      patience_s: seconds that the end waits for what is still to be sent.
    """

    def __init__(
        self, mode: str, say: Callable[[str], None], warn: Warn, patience_s: float = 10.0
    ) -> None:
        self._mode, self._say, self._warn, self._patience_s = mode, say, warn, patience_s
        self._rows: queue.Queue[str | None] = queue.Queue(_ROWS)
        self._process: subprocess.Popen[str] | None = None
        self._threads: list[threading.Thread] = []
        self._left_out, self._identity = 0, ""
        self._answer: dict[str, Any] = {}
        self._has_failed = self._is_done = False

    def start(self, folder: Path, identity: str, name: str, config: Mapping[str, Any]) -> None:
        """Begin to send, unless that has begun: sessions of one id are one curve.

        folder: of the run; the package keeps its files in `wandb/` there.
        """
        if self._mode == "off" or self._process is not None or self._has_failed:
            return
        if not _is_installed():
            self._has_failed = True
            self._say(f"--wandb auto: wandb is not installed, so nothing is sent; {_INSTALL}")
            return
        self._identity = identity
        begin = {
            "is_offline": self._mode == "offline",
            "project": os.environ.get("WANDB_PROJECT") or _PROJECT,
            "id": identity,
            "name": name,
            "dir": str(folder),
            "config": jsonable(config),
        }
        path = os.pathsep.join(filter(None, sys.path))
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.wandb_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, **_QUIET, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for the training
            )
        except OSError as error:
            self._fail(str(error))
            return
        self._rows.put_nowait(json.dumps(begin))
        for work in (self._feed, self._listen):
            thread = threading.Thread(target=work, args=(self._process,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def append(self, row: Mapping[str, Any]) -> None:
        """Send a row of metrics.jsonl; its iteration is W&B's step."""
        if self._process is None or self._has_failed:
            return
        known = {name: value for name, value in jsonable(row).items() if value is not None}
        try:
            self._rows.put_nowait(json.dumps(known))
        except queue.Full:
            self._left_out += 1

    def close(self) -> None:
        """Send what is left, and say what the user can do with it."""
        process, self._process = self._process, None
        if process is None:
            return
        # where the queue is full, the process hangs: the wait below ends it
        with contextlib.suppress(queue.Full):
            self._rows.put(None, timeout=1.0)
        try:
            process.wait(self._patience_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._warn(f"W&B did not finish within {self._patience_s:g} s")
        for thread in self._threads:
            thread.join(1.0)
        if self._left_out:
            self._warn(f"W&B did not keep up: {self._left_out:,} rows were left out")
        if self._answer:
            folder, version = Path(self._answer["folder"]), self._answer["version"]
            is_sent = self._is_done and self._answer["mode"] == "online"
            if command := sync_command(folder, self._identity, version, is_sent):
                self._say(f"W&B lacks rows of this run; to send them: {command}")

    def _feed(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        with contextlib.suppress(OSError, ValueError):  # `_listen` says why it is gone
            while (line := self._rows.get()) is not None:
                process.stdin.write(line + "\n")
                process.stdin.flush()
        with contextlib.suppress(OSError):
            process.stdin.close()

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            answer = json.loads(line)
            if "error" in answer:
                self._fail(answer["error"])
            elif "done" in answer:
                self._is_done = True
            else:
                self._answer = answer
                why = f" ({answer['why']})" if answer["why"] else ""
                self._say(f"W&B: {answer['mode']}{why}, {answer['folder']}")
        if process.wait() and not self._has_failed and self._process is not None:
            self._fail(f"its process ended with code {process.returncode}")

    def _fail(self, reason: str) -> None:
        self._has_failed = True
        self._warn(f"nothing more is sent to W&B: {reason}")
