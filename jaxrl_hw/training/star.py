"""Several processes of one run: a TCP connection from each to process 0.

JAX has a service of the same shape. It ends a process with an abort and a stack trace where another
one is missing or gone; what the user must read, the exit code, and what the first process still has
to write would be lost. It also needs JAX, which is loaded only after the plan. A connection that
closes says at once that a process is gone, and TCP's keepalive that a machine is.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from jaxrl_hw.errors import RunError, UserError, first_line, one_line
from jaxrl_hw.hardware.processes import Processes
from jaxrl_hw.training.group import Group
from jaxrl_hw.training.links import BYE, SAID, Link, call, error_of, listen

_GRACE_S = 20.0
"""What the first process may take to end by itself after another one is gone. Its main thread may
wait for that one in a computation, which nothing can interrupt."""
_NOTICE_S = 3.0
"""A computation may fail this long before the connection says why."""
_FAREWELL_S = 5.0
"""How long the first process waits until the others have read why it ends."""
_unclean = threading.Event()
"""Set where a run of several processes has failed: JAX would wait for all of them at the end."""


def leave(code: int) -> int:
    """The exit code of a process; ends it at once where a run of several processes has failed."""
    if _unclean.is_set():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    return code


class Star(Group):
    """This process's end of the connections. Leaving `with` tells the others how it ends.

    processes: which one this is.
    hello: what the others learn of this one at the start, as JSON has it.
    Raises UserError where the processes do not find each other in time.
    """

    def __init__(self, processes: Processes, hello: dict[str, Any]) -> None:
        self.number, self.index = processes.number, processes.index
        self.processes, self.timeout_s = processes, processes.timeout_s
        self._lost: tuple[str, bool] | None = None  # why, and whether the input was bad
        self._closing, self._guard = False, threading.Lock()
        self._name = f"process {self.index} on {socket.gethostname()}"
        mine = {**hello, "index": self.index, "number": self.number, "host": socket.gethostname()}
        try:
            self._links, self.hellos = (listen if self.is_first else call)(processes, mine)
        except OSError as error:
            raise UserError(
                f"--coordinator {processes.coordinator} cannot be used: {error.strerror or error}"
            ) from error
        self.scratch = None
        if not self.is_first:
            self.scratch = Path(tempfile.mkdtemp(prefix="jaxrl_hw-process-"))
        self._threads = [
            threading.Thread(target=self._hear, args=(link,), daemon=True) for link in self._links
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Star:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: object) -> None:
        if error is None:
            try:
                self.round(None)  # the first process has saved
            except BaseException as late:
                self._failed(late)
                raise
            self._goodbye()
        else:
            self._failed(error)

    def round(self, value: Any, timeout_s: float | None = None) -> list[Any]:
        data = json.dumps(value).encode()
        if not self.is_first:
            self._links[0].send(SAID, data)
            return list(json.loads(self._answer(self._links[0], timeout_s)))
        until = None if timeout_s is None else time.monotonic() + timeout_s
        said = [value]
        for link in self._links:
            left = None if until is None else max(0.0, until - time.monotonic())
            said.append(json.loads(self._answer(link, left)))
        self.share(json.dumps(said).encode())
        return said

    def share(self, data: bytes = b"") -> bytes:
        if not self.is_first:
            return self._answer(self._links[0])
        for link in self._links:
            link.send(SAID, data)
        return data

    def collect(self, data: bytes) -> list[bytes]:
        if self.is_first:
            return [self._answer(link) for link in self._links]
        self._links[0].send(SAID, data)
        return []

    def _answer(self, link: Link, timeout_s: float | None = None) -> bytes:
        try:
            data = None if self._lost else link.heard.get(timeout=timeout_s)
        except queue.Empty:
            raise RunError(
                f"out of memory, and {link.name} waits for this process in a computation: start "
                "all processes again with half of --num-envs"
            ) from None
        if data is None:
            raise error_of(*(self._lost or (f"{link.name} is gone", False)))
        return data

    def _hear(self, link: Link) -> None:
        """Queue what a process says, until it says goodbye or is gone."""
        ended = False
        while True:
            try:
                kind, data = link.receive()
            except OSError:
                break
            if kind == SAID:
                link.heard.put(data)
            elif kind == BYE:
                ended = True
            else:
                ended, reason = True, json.loads(data)
                self._lose(reason["text"], reason["bad_input"])
        if not ended:
            self._lose(
                f"{link.name} is gone, and the run cannot go on without it; start all processes "
                "again with the same command",
                bad_input=False,
            )
        link.heard.put(None)

    def _lose(self, text: str, bad_input: bool) -> None:
        """A process is gone: all others end too."""
        timer = threading.Timer(_GRACE_S, self._exit)
        timer.daemon = True
        with self._guard:  # until the others know why: the main thread must not say goodbye before
            if self._lost is not None or self._closing:
                return
            self._lost = text, bad_input
            _unclean.set()
            if not self.is_first:  # nothing is left to be saved here
                self._exit()
            timer.start()
            for link in self._links:
                link.fail(text, bad_input)
                link.heard.put(None)

    def _exit(self) -> None:
        text, bad_input = self._lost or ("", False)
        os.write(2, f"error: {text}\n".encode())
        self._throw_away()
        os._exit(2 if bad_input else 1)

    def _failed(self, error: BaseException) -> None:
        """Tell the others that this process fails. Where it fails because another one is gone,
        raises that in place of the error."""
        _unclean.set()
        own = isinstance(error, (UserError, RunError, KeyboardInterrupt))
        until = time.monotonic() + (0.0 if own else _NOTICE_S)
        while self._lost is None and time.monotonic() < until:
            time.sleep(0.05)
        with self._guard:
            lost, self._closing = self._lost, True
        if lost is None:
            reason = one_line(error) if own else first_line(error)
            if isinstance(error, KeyboardInterrupt):
                reason = "interrupted"
            for link in self._links:
                link.fail(f"{self._name}: {reason}", isinstance(error, UserError))
        self._goodbye()
        if lost is not None and not own:
            raise error_of(*lost) from error

    def _goodbye(self) -> None:
        with self._guard:
            self._closing = True
        for link in self._links:
            link.send(BYE)
            link.close()
        if self.is_first:
            until = time.monotonic() + _FAREWELL_S
            for thread in self._threads:
                thread.join(max(0.0, until - time.monotonic()))
        self._throw_away()

    def _throw_away(self) -> None:
        if self.scratch is not None:
            shutil.rmtree(self.scratch, ignore_errors=True)
