"""A small file that is made once and taken away once, whoever else tries: what a lock stands on."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.atomic import read_json
from jaxrl_hw.errors import RunError, UserError

Note = dict[str, Any]

_PATIENCE_S = 5.0


def create(path: Path, note: Mapping[str, Any]) -> bool:
    """Make the note, whole and only where there is none: of two processes one gets True.

    Raises RunError where it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    data = json.dumps(note, indent=2).encode() + b"\n"
    try:
        temporary.write_bytes(data)
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError:  # a disk without hard links, as many a network's
            with open(path, "xb") as file:
                file.write(data)
        return True
    except FileExistsError:
        return False
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def read(path: Path) -> Note | None:
    """The note, {} where it is not whole, None where there is none. Raises RunError."""
    try:
        found = read_json(path, "")
    except UserError:
        found = {}
    return found if isinstance(found, dict) or found is None else {}


def remove(path: Path, found: Mapping[str, Any]) -> bool:
    """Take the note away that was `found`; False where there is another one in its place by now."""
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.rename(aside)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise RunError(f"cannot remove {path}: {error.strerror or error}") from error
    try:
        same = read(aside) == found
        if not same:  # another process was faster: this is its note, and it gets it back
            with contextlib.suppress(OSError):
                os.link(aside, path)
        return same
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()


def age_s(path: Path) -> float:
    """Seconds since the note was touched, by the clock of the disk that holds it."""
    try:
        with tempfile.TemporaryFile(dir=path.parent) as probe:
            now = os.fstat(probe.fileno()).st_mtime
    except OSError:
        now = time.time()
    try:
        return max(0.0, now - path.stat().st_mtime)
    except OSError:
        return float("inf")


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process of this machine at a time; without effect on disks that cannot do it.

    Making a note is one step; finding one and putting another in its place is several.
    """
    descriptor = None
    try:
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY)
        end = time.monotonic() + _PATIENCE_S
        while time.monotonic() < end:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(0.05)
    except (ImportError, OSError):
        pass  # `remove` checks what it takes away as well
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
