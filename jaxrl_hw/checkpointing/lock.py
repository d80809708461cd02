"""One run, one writer: the lock file `session.open` in the folder of a run.

`filelock` only guards the takeover of a lock file. Over a run's whole life a FileLock does not say
who holds it, and many network disks do not pass it on to other machines; a SoftFileLock outlives a
machine that crashed; a SoftFileLease makes the next process watch it for all of the 10 minutes. The
lock file names host, pid and start time of the process and carries the session's record. Its age
shows at once whether a process of another machine still lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.files import disk_errors, read_json, write_json
from jaxrl_hw.errors import RunError, UserError

Content = dict[str, Any]
"""Of a lock file: the `IDENTITY` of a process and the record of its session."""

IDENTITY = ("pid", "host", "process_started")
HEARTBEAT_S = 30.0
"""Between two touches of the lock file."""
STALE_S = 600.0
"""The process of a lock file from another machine counts as dead after so long without a touch."""

_BEING_WRITTEN_S = 2.0
"""An incomplete lock file younger than this is still being written."""
_GUARD_TIMEOUT_S = 5.0

_held_here: set[str] = set()
"""Real paths of the lock files that this process holds."""


class Lock:
    """The lock file at `path`, in a folder that exists, touched by a thread while it is held."""

    def __init__(self, path: Path, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.path = path
        self._heartbeat_s = heartbeat_s
        self._content: Content = {}  # of the lock file while it is held
        self._new_owner = ""
        self._guard = threading.RLock()  # between this thread and the heartbeat
        self._released = threading.Event()

    @property
    def held(self) -> bool:
        """Whether this object holds the lock, as far as it knows."""
        return bool(self._content) and not self.lost

    @property
    def lost(self) -> bool:
        """Whether another process has taken over, as far as this object knows."""
        return bool(self._new_owner)

    @property
    def record(self) -> Content:
        """What `write` has added."""
        return record_of(self._content)

    def acquire(self) -> Content | None:
        """Become the folder's only writer.

        Returns the session record of a process that died, None where there was no lock file.
        Raises UserError, naming host and process, where another process trains in the folder;
        RunError where the lock file cannot be written.
        """
        identity, previous = _identity(), None
        with _takeover_guard(self.path):
            while not _create(self.path, identity):
                found = read_lock(self.path)
                if found is None:
                    continue  # removed since
                if not found and age_s(self.path) < _BEING_WRITTEN_S:
                    time.sleep(0.1)
                    continue
                if is_living(found, self.path):
                    raise _occupied(found, self.path)
                if remove(self.path, found):
                    previous = record_of(found)
        self._content, self._new_owner, self._released = identity, "", threading.Event()
        _held_here.add(os.path.realpath(self.path))
        threading.Thread(target=self._beat, args=(self._released,), daemon=True).start()
        return previous

    def write(self, record: Mapping[str, Any]) -> None:
        """Add a record to the lock file. Raises RunError where it cannot, or the lock is lost."""
        self.check()
        with self._guard:
            self._content = {**self._content, **record}
            write_json(self.path, self._content)

    def check(self) -> None:
        """Raises RunError where another process has taken over, as after a long sleep."""
        if self.held:
            self._look()
        if self.lost:
            raise RunError(
                f"{self._new_owner} has taken over {self.path.parent}: this process gave no sign "
                f"of life for more than {STALE_S / 60:.0f} min; it stops and writes nothing more"
            )

    def release(self) -> None:
        """Remove the lock file, if this object holds it, and stop the heartbeat."""
        with self._guard:
            if self.held and self._look():
                with contextlib.suppress(OSError):
                    self.path.unlink(missing_ok=True)
            self.abandon()

    def abandon(self) -> None:
        """Stop the heartbeat but leave the lock file; the next process counts it as killed."""
        with self._guard:
            if self._content:
                _held_here.discard(os.path.realpath(self.path))
            self._released.set()
            self._content = {}

    def _beat(self, released: threading.Event) -> None:
        while not released.wait(self._heartbeat_s):
            with self._guard:
                if released.is_set() or not self.held:
                    return
                if self._look():
                    with contextlib.suppress(OSError):  # the disk may come back
                        os.utime(self.path)

    def _look(self) -> bool:
        """Whether this process still owns the lock file; restores a deleted one."""
        with self._guard, contextlib.suppress(OSError, RunError):
            found = read_lock(self.path)
            if found is None:
                if self.path.parent.is_dir():
                    _create(self.path, self._content)
            elif found and any(found.get(name) != self._content[name] for name in IDENTITY):
                self._new_owner = owner(found)
        return self.held


def read_lock(path: Path) -> Content | None:
    """What a lock file says, {} where it is incomplete, None without one. Raises RunError."""
    try:
        found = read_json(path, "")
    except UserError:
        return {}
    complete = found is None or (isinstance(found, dict) and {"pid", "host"} <= found.keys())
    return found if complete else {}


def owner(found: Content) -> str:
    """The process that a lock file names, for people."""
    return f"process {found.get('pid', '?')} on {found.get('host', '?')}"


def record_of(found: Content) -> Content:
    """A lock file's record of the session."""
    return {name: value for name, value in found.items() if name not in IDENTITY}


def is_living(found: Content, path: Path) -> bool:
    """Whether the process that a lock file names still trains, as far as this machine can see."""
    if not found:
        return False  # half a lock file shows only that a session was killed
    mine = _identity()
    if found["host"] != mine["host"]:
        return age_s(path) < STALE_S
    import psutil

    try:
        process = psutil.Process(int(found["pid"]))
        # systems use process numbers again
        same = abs(process.create_time() - float(found["process_started"])) < 2.0
        living = same and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, KeyError, TypeError, ValueError, OverflowError):
        return False
    return living and (found["pid"] != mine["pid"] or os.path.realpath(path) in _held_here)


def remove(path: Path, found: Content) -> bool:
    """Delete the lock file with the content `found`; False where another process was faster."""
    if read_lock(path) != found:
        return False
    with disk_errors(f"remove {path}"):
        path.unlink(missing_ok=True)
    return True


def age_s(path: Path) -> float:
    """Seconds since a file was touched, by the clock of the disk that holds it."""
    now = time.time()
    with contextlib.suppress(OSError), tempfile.TemporaryFile(dir=path.parent) as probe:
        now = os.fstat(probe.fileno()).st_mtime
    try:
        return max(0.0, now - path.stat().st_mtime)
    except OSError:
        return float("inf")


def _create(path: Path, content: Content) -> bool:
    """Make the lock file; of several processes one gets True, on every disk. Raises RunError."""
    with disk_errors(f"write {path}"), contextlib.suppress(FileExistsError):
        with open(path, "x", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
        return True
    return False


@contextlib.contextmanager
def _takeover_guard(path: Path) -> Iterator[None]:
    """One process at a time, where the disk has locks.

    Making a lock file is one step; finding a dead one and replacing it is several. Where two
    processes do so at once on a disk without locks, `_look` tells the first that it has lost.
    """
    from filelock import FileLock  # tens of ms, and `runs list` needs none of it

    guard = FileLock(path.with_name(f".{path.name}.guard"), timeout=_GUARD_TIMEOUT_S)
    with contextlib.suppress(OSError, NotImplementedError):  # Timeout is an OSError
        guard.acquire()
    try:
        yield
    finally:
        if guard.is_locked:
            # FileLock leaves its file. Deleting it while locked is safe: a process that waits for
            # the old file notices, and locks the new one.
            with contextlib.suppress(OSError):
                os.unlink(guard.lock_file)
            guard.release()


def _occupied(found: Content, path: Path) -> UserError:
    return UserError(
        f"{owner(found)} is already training in {path.parent}, last "
        f"seen {age_s(path):.0f} s ago; stop it, or choose another --run-dir; if it died, run this "
        f"again {STALE_S / 60:.0f} min after it was last seen, or delete {path}"
    )


def _identity() -> Content:
    import platform

    import psutil

    started = psutil.Process().create_time()
    return {"pid": os.getpid(), "host": platform.node(), "process_started": started}
