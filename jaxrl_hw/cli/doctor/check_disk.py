"""The disk that runs are written to: its speed and its free space."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jaxrl_hw.cli.doctor.results import CheckResult, Context
from jaxrl_hw.cli.doctor.run_in_subprocess import run_in_subprocess
from jaxrl_hw.errors import RunError
from jaxrl_hw.loggers import formats

SLOW = 5e6
"""Bytes per second. A checkpoint has some 5 MB: below this, saving it takes more than a second."""
LITTLE = 1e9
"""Bytes free. With less, the checkpoints of a long run may not fit."""
_BLOCK, _BLOCKS = 1 << 20, 16


def check(context: Context) -> Iterator[CheckResult]:
    """A row for the speed of writing and one for the free space."""
    folder = context.run_dir
    seen = run_in_subprocess(write, str(folder), timeout_s=60)
    rate = seen["bytes"] / seen["seconds"]
    text = f"{formats.size(rate)}/s written and flushed to disk in {folder}"
    advice = "use a local disk, with --mirror to keep a copy on this one"
    yield CheckResult("speed", text, advice if rate < SLOW else "", seen)
    text = f"{formats.size(seen['free'])} free of {formats.size(seen['total'])}"
    advice = "make room, or name another folder with --run-dir"
    figures = {"free": seen["free"], "total": seen["total"]}
    yield CheckResult("room", text, advice if seen["free"] < LITTLE else "", figures)


def write(path: str) -> dict[str, Any]:
    """Write 16 MB in a folder and wait until the disk has them; leaves nothing behind.

    The file has no name (on Linux), so even a killed process leaves none. A missing folder is made
    and removed again.

    Raises:
      RunError: the folder cannot be made or written, or the disk is full.
    """
    folder = Path(path)
    data = os.urandom(_BLOCK)  # no file system can compress it
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
            with contextlib.suppress(OSError):  # another process has put something in it
                place.rmdir()
    size = _BLOCK * _BLOCKS
    return {"bytes": size, "seconds": seconds, "free": room.free, "total": room.total}
