"""The disk that runs are written to: how fast it is and how much of it is free."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl_hw.cli.doctor.results import PASS, WARN, Finding
from jaxrl_hw.cli.doctor.run_in_subprocess import call
from jaxrl_hw.cli.doctor.runner import Visit
from jaxrl_hw.errors import RunError
from jaxrl_hw.loggers import formats

LIMIT_S = 60.0
SLOW = 5e6
"""Bytes per second under which checkpoints, of some 5 MB, come late."""
LITTLE = 1e9
"""Bytes free under which a long run may not find the room for its checkpoints."""
_CHECK = "run folder"
_BLOCK, _BLOCKS = 1 << 20, 16


def check(visit: Visit) -> Iterator[Finding]:
    """A row for the speed of writing and one for the room."""
    folder = visit.run_dir
    seen = call(write, str(folder), limit_s=LIMIT_S)
    rate = seen["bytes"] / seen["seconds"]
    text = f"{formats.size(rate)}/s written and flushed to disk in {folder}"
    slow = rate < SLOW
    advice = "use a local disk, with --mirror to keep a copy on this one" if slow else ""
    yield Finding(_CHECK, "speed", WARN if slow else PASS, text, advice, seen)
    text = f"{formats.size(seen['free'])} free of {formats.size(seen['total'])}"
    little = seen["free"] < LITTLE
    advice = "make room, or name another folder with --run-dir" if little else ""
    figures = {"free": seen["free"], "total": seen["total"]}
    yield Finding(_CHECK, "room", WARN if little else PASS, text, advice, figures)


def write(path: str) -> dict[str, Any]:
    """Write 16 MB in a folder and wait until the disk has them; nothing of it stays behind.

    The file has no name (on Linux), so that not even a process that is killed leaves it. The folder
    is made where there is none, and removed again.

    Raises:
      RunError: the folder cannot be made or written, or the disk is full.
    """
    folder = Path(path)
    data = os.urandom(_BLOCK)  # which no file system can compress
    made: list[Path] = []
    try:
        for place in reversed((folder, *folder.absolute().parents)):
            if not place.exists():
                place.mkdir()
                made.append(place)
        with tempfile.TemporaryFile(dir=folder) as file:
            began = time.perf_counter()
            for _ in range(_BLOCKS):
                file.write(data)
            file.flush()
            os.fsync(file.fileno())
            seconds = time.perf_counter() - began
        room = shutil.disk_usage(folder)
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise RunError(f"{folder} cannot be written: {why}") from error
    finally:
        for place in reversed(made):
            with contextlib.suppress(OSError):  # something of somebody else is in it by now
                place.rmdir()
    return {
        "bytes": _BLOCK * _BLOCKS,
        "seconds": seconds,
        "free": room.free,
        "total": room.total,
    }
