"""A run's folder and its mirror: what is copied from the one to the other, and how.

Every file and every checkpoint appears under its name only when it is whole.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import shutil
import uuid
from collections.abc import Iterable
from pathlib import Path

from jaxrl_hw.checkpointing.retention import Shelf
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.errors import RunError

SMALL_FILES = ("config.json", "plan.json", "sessions.jsonl", "metrics.jsonl")


def holder(run: RunDir, mirror: RunDir | None) -> RunDir:
    """Where the run is: in its folder, or in the mirror where the folder has no checkpoint.

    Reads names only. Raises RunError where the mirror cannot be read.
    """
    if mirror is None or run.newest_checkpoint():
        return run
    try:
        return mirror if mirror.newest_checkpoint() else run
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(
            f"{run.path} has no checkpoint, and its mirror {mirror.path} cannot be read: {reason}"
        ) from error


def update_mirror(run: RunDir, mirror: RunDir, shelf: Shelf, replace: bool) -> None:
    """Make the mirror what the run's folder is: its small files and its complete checkpoints.

    Args:
      run: the run.
      mirror: its folder in the mirror; made where only that one is missing.
      shelf: of the run's checkpoints; keeps what is being copied from being deleted.
      replace: whether another run's mirror of this name is moved aside, not refused.

    Raises:
      RunError: the folder mirrors another run, or the mirror's place is not there.
      OSError: the disk refuses.
    """
    _check_place(mirror.path)
    _check_own(run, mirror, replace)
    mirror.path.mkdir(parents=True, exist_ok=True)
    # before the checkpoints: rows of metrics.jsonl past the newest one are cut, missing ones lost
    copy_small_files(run, mirror)
    theirs, there = Shelf(mirror.checkpoints), shelf.iterations()
    for iteration in reversed(there):
        if shelf.is_sound(iteration):  # the mirror's own may be whole
            copy_checkpoint(shelf, theirs, iteration)
    for iteration in theirs.iterations():
        # a later one stays until the run has come that far again
        if there and iteration < there[-1] and iteration not in there:
            theirs.delete(iteration)
    theirs.sweep()


def bring_back(mirror: RunDir, run: RunDir) -> None:
    """Make the run's folder what the mirror has; it must exist and have no checkpoint.

    The checkpoints appear all at once: after a crash in between it is done again.
    Raises RunError where the disk refuses.
    """
    shelf = Shelf(run.checkpoints.with_name(".checkpoints.copy"))
    try:
        shutil.rmtree(shelf.directory, ignore_errors=True)
        copy_small_files(mirror, run)
        theirs = Shelf(mirror.checkpoints)
        for iteration in theirs.iterations():
            shelf.put(iteration, functools.partial(_copy_folder, theirs.folder(iteration)))
        if run.checkpoints.exists():  # with nothing in it that is a checkpoint
            run.checkpoints.rename(_free_name(run.checkpoints))
        shelf.directory.rename(run.checkpoints)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot copy {mirror.path} back to {run.path}: {reason}") from error


def repair(mirror: RunDir, shelf: Shelf, iterations: Iterable[int]) -> None:
    """Put the mirror's checkpoints of these iterations in the place of the run's, newest first.

    shelf: of the run's checkpoints. Raises RunError where the disk refuses.
    """
    theirs = Shelf(mirror.checkpoints)
    try:
        for iteration in sorted(iterations, reverse=True):
            copy_checkpoint(theirs, shelf, iteration, even_if_same=True)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RunError(f"cannot copy {mirror.checkpoints} back: {reason}") from error


def copy_small_files(source: RunDir, target: RunDir) -> None:
    """Copy `SMALL_FILES`, those that there are. Raises OSError."""
    for name in SMALL_FILES:
        old, new = source.path / name, target.path / name
        if not old.exists():
            continue
        temporary = new.with_name(f".{name}.{uuid.uuid4().hex}")
        try:
            shutil.copyfile(old, temporary)
            os.replace(temporary, new)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()


def copy_checkpoint(
    source: Shelf, target: Shelf, iteration: int, even_if_same: bool = False
) -> None:
    """Copy one checkpoint, unless the target has that very one. Raises OSError."""
    with source.holding(iteration) as folder:
        before = _description(folder)
        same = before == _description(target.folder(iteration))
        if not before or (same and not even_if_same):
            return

        def write(to: Path) -> None:
            _copy_folder(folder, to)
            if _description(folder) != before:  # replaced meanwhile; the next time will do
                shutil.rmtree(to, ignore_errors=True)
                raise OSError(f"{folder} changed while it was copied")

        target.put(iteration, write)


def _copy_folder(source: Path, target: Path) -> None:
    """Contents only: times and rights are nothing that every mirror can hold."""
    temporary = target.with_name(f"{target.name}.{uuid.uuid4().hex}.copy")
    try:
        temporary.mkdir(parents=True)
        for path in sorted(source.rglob("*")):  # a folder comes before what is in it
            to = temporary / path.relative_to(source)
            if path.is_dir():
                to.mkdir(exist_ok=True)
            else:
                shutil.copyfile(path, to)
        temporary.rename(target)
    except OSError:
        shutil.rmtree(temporary, ignore_errors=True)
        raise


def _description(folder: Path) -> bytes:
    """What tells a checkpoint from every other: it holds the checksums of all that is in it."""
    try:
        return (folder / "meta" / "metadata").read_bytes()
    except OSError:
        return b""


def _check_place(mirror: Path) -> None:
    """A drive that is not mounted must not be mistaken for an empty folder of this disk."""
    if not mirror.parent.parent.is_dir():
        raise RunError(f"{mirror.parent.parent} is not there (is the drive mounted?)")


def _check_own(run: RunDir, mirror: RunDir, replace: bool) -> None:
    if not mirror.newest_checkpoint() or mirror.read_id() == run.read_id():
        return
    if not replace:
        raise RunError(
            f"{mirror.path} is the mirror of another run; choose another --mirror or --run-dir"
        )
    mirror.path.rename(_free_name(mirror.path))


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.{n}") for n in itertools.count(1))
    return next(name for name in names if not name.exists())
