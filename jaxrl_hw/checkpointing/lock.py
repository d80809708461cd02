"""One run, one writer: the note that a process leaves in the folder of the run it trains."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing import lock_file
from jaxrl_hw.checkpointing.atomic import write_json
from jaxrl_hw.checkpointing.lock_file import Note
from jaxrl_hw.errors import RunError, UserError

IDENTITY = ("pid", "host", "process_started")
HEARTBEAT_S = 30.0
"""The writer touches its note this often."""
STALE_S = 600.0
"""A note of another machine that was not touched for this long is of a process that is gone."""

_HERE, _ELSEWHERE, _GONE = "here", "elsewhere", "gone"
_HALF_S = 2.0  # a note younger than this that is not whole is still being written

_mine: set[str] = set()
"""Real paths of the notes that this process holds."""


class Lock:
    """The note `session.open`: who trains in a folder.

    path: of the note; its folder must exist when it is acquired.
    heartbeat_s: seconds between two touches, from a thread of its own.
    """

    def __init__(self, path: Path, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.path = path
        self._heartbeat_s = heartbeat_s
        self._note: Note = {}
        self._lost = ""
        self._guard = threading.RLock()  # between this thread and the heartbeat's
        self._released = threading.Event()

    @property
    def held(self) -> bool:
        """Whether this object holds the lock, as far as it knows."""
        return bool(self._note) and not self._lost

    @property
    def lost(self) -> bool:
        """Whether another process has been seen to have taken it over."""
        return bool(self._lost)

    @property
    def record(self) -> Note:
        """What `write` has put beside the identity."""
        return _without_identity(self._note)

    def acquire(self) -> Note | None:
        """Become the folder's only writer.

        Returns what a process that is gone has left in its note, None where there was none.
        Raises UserError, naming host and process, where another one trains in the folder; RunError
        where the note cannot be written.
        """
        mine, left = _identity(), None
        with lock_file.alone(self.path.parent):
            while not lock_file.create(self.path, mine):
                found = lock_file.read(self.path)
                if found is None:
                    continue  # gone since
                if not _is_whole(found) and lock_file.age_s(self.path) < _HALF_S:
                    time.sleep(0.1)
                    continue
                _refuse_living(found, self.path)
                if lock_file.remove(self.path, found):
                    left = _without_identity(found)
        self._note, self._lost, self._released = mine, "", threading.Event()
        _mine.add(os.path.realpath(self.path))
        beat = threading.Thread(target=self._beat, args=(self._released,), daemon=True)
        beat.start()
        return left

    def write(self, record: Mapping[str, Any]) -> None:
        """Put a record into the note. Raises RunError where it cannot be, or the lock is lost."""
        self.check()
        with self._guard:
            self._note = {**self._note, **record}
            write_json(self.path, self._note)

    def check(self) -> None:
        """Raises RunError where another process has taken over, as after a long sleep."""
        if self.held:
            self._look()
        if self._lost:
            raise RunError(
                f"{self._lost} has taken over {self.path.parent}, as this process was not seen for "
                f"more than {STALE_S / 60:.0f} min; stopped without writing anything more"
            )

    def release(self) -> None:
        """Remove the note, if it is held, and stop touching it."""
        with self._guard:
            if self.held:
                self._look()
            if self.held:
                with contextlib.suppress(OSError):
                    self.path.unlink(missing_ok=True)
            self.abandon()

    def abandon(self) -> None:
        """Stop touching the note but leave it: whoever comes next counts this session as killed."""
        with self._guard:
            if self._note:
                _mine.discard(os.path.realpath(self.path))
            self._released.set()
            self._note = {}

    def _beat(self, released: threading.Event) -> None:
        while not released.wait(self._heartbeat_s):
            with self._guard:
                if released.is_set() or not self.held:
                    return
                self._look()
                if self.held:
                    with contextlib.suppress(OSError):  # the disk may come back
                        os.utime(self.path)

    def _look(self) -> None:
        """Find out whether the note is still ours; where somebody has deleted it, make it again."""
        with self._guard, contextlib.suppress(OSError, RunError):
            found = lock_file.read(self.path)
            if found is None:
                if self.path.parent.is_dir():
                    lock_file.create(self.path, self._note)
            elif found and any(found.get(name) != self._note[name] for name in IDENTITY):
                self._lost = f"process {found.get('pid')} on {found.get('host')}"


def is_living(found: Note, path: Path) -> bool:
    """Whether the process of a note that was read at `path` still trains, as far as can be told."""
    return _verdict(found, path) != _GONE


def _refuse_living(found: Note, path: Path) -> None:
    verdict = _verdict(found, path)
    if verdict == _GONE:
        return
    pid, host, folder = found["pid"], found["host"], path.parent
    if verdict == _HERE:
        raise UserError(
            f"process {pid} is already training in {folder}, on this machine ({host}); "
            "stop it, or choose another --run-dir"
        )
    raise UserError(
        f"process {pid} is already training in {folder}, on {host}, last seen "
        f"{lock_file.age_s(path):.0f} s ago; stop it, or choose another --run-dir; if it is gone, "
        f"run this again when it was not seen for {STALE_S / 60:.0f} min, or delete {path}"
    )


def _verdict(found: Note, path: Path) -> str:
    """Where the note's process trains: here, elsewhere, or gone."""
    if not _is_whole(found):
        return _GONE  # half a note is as good as none: it says only that a session was killed
    if found["host"] == _identity()["host"]:
        return _HERE if _is_alive(found, path) else _GONE
    return _ELSEWHERE if lock_file.age_s(path) < STALE_S else _GONE


def _is_whole(found: Note) -> bool:
    return {"pid", "host"} <= set(found)


def _identity() -> Note:
    import platform

    import psutil

    started = psutil.Process().create_time()
    return {"pid": os.getpid(), "host": platform.node(), "process_started": started}


def _is_alive(found: Note, path: Path) -> bool:
    """Whether the note's process, of this machine, still runs. Process numbers are used again."""
    import psutil

    try:
        process = psutil.Process(int(found["pid"]))
        same = abs(process.create_time() - float(found["process_started"])) < 2.0
        living = same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, KeyError, TypeError, ValueError, OverflowError):
        return False
    if found["pid"] == os.getpid():
        return living and os.path.realpath(path) in _mine
    return living


def _without_identity(found: Note) -> Note:
    return {name: value for name, value in found.items() if name not in IDENTITY}
