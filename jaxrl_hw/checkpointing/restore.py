"""Checkpoints read back: what is damaged is told and passed over, never taken for the truth."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing import description, leaves, orbax_io
from jaxrl_hw.checkpointing.arrays import Arrays, DamagedError
from jaxrl_hw.checkpointing.retention import Shelf
from jaxrl_hw.errors import RunError, UserError

Warn = Callable[[str], None]

Template = Any
"""The form to restore: a state, its jax.ShapeDtypeStructs, or a function that makes one of these
from the settings (a dict) that the checkpoint was saved with, {} where it does not have them."""

_AGAIN = 3


class AllDamagedError(RunError):
    """There are checkpoints, and none of them is whole."""

    def __init__(self, folders: list[Path]) -> None:
        names = ", ".join(map(str, folders))
        super().__init__(
            f"no checkpoint could be restored, these are damaged: {names}; "
            "restore one from a copy, or start anew with --resume never"
        )


def read_checkpoint(folder: Path, template: Template) -> tuple[Any, int]:
    """One checkpoint as (a state of `template`'s form, its iteration).

    Raises UserError where the form differs or a newer version wrote it, DamagedError where
    it cannot be read whole.
    """
    # In a thread: Orbax runs an event loop, and in a notebook the main thread has its own.
    with ThreadPoolExecutor(max_workers=1) as worker:
        arrays, meta = worker.submit(_read_whole, folder).result()
    form = template(meta["config"]) if callable(template) else template
    leaves.check_same(meta["leaves"], form, str(folder))
    return leaves.from_arrays(arrays, meta["leaves"], form), int(meta["iteration"])


def read_newest(
    shelf: Shelf, template: Template, iteration: int | None, warn: Warn
) -> tuple[Any, int] | None:
    """(state, iteration) of the newest checkpoint that is whole, or of the one named.

    Damaged ones are told to `warn`, noted on the shelf and left on disk. None where there is no
    checkpoint. Raises UserError where the form differs or the iteration is not there,
    AllDamagedError where none is whole.
    """
    for _ in range(_AGAIN):
        there = shelf.iterations()
        if iteration is not None:
            if iteration not in there:
                names = ", ".join(map(str, there)) or "none"
                raise UserError(f"no checkpoint of iteration {iteration}: there are {names}")
            there = [iteration]
        if not there:
            return None
        damaged = []
        for number in reversed(there):
            try:
                return _read_numbered(shelf.folder(number), number, template), number
            except DamagedError as error:
                if not shelf.folder(number).exists():
                    continue  # the run goes on meanwhile, and has removed it
                damaged.append(shelf.folder(number))
                shelf.damaged.add(number)
                warn(f"checkpoint {shelf.folder(number)} is damaged and passed over: {error}")
        if damaged:
            raise AllDamagedError(damaged)
    raise RunError(f"the checkpoints in {shelf.directory} are removed while they are read")


def restore_from(path: Path, template: Template, warn: Warn) -> tuple[Any, int]:
    """Read (state, iteration) from what the user names: a run, its checkpoints, or one of these.

    Of several the newest whole one is taken; nothing is written. Raises UserError where there is no
    checkpoint or its form differs from `template`, RunError where all are damaged.
    """
    what = "a run, its checkpoints folder, or one checkpoint in it"
    if not path.is_dir():
        state = "is a file" if path.exists() else "does not exist"
        raise UserError(f"no checkpoint to start from: {path} {state}; allowed is {what}")
    if orbax_io.is_checkpoint(path):
        try:
            return read_checkpoint(path, template)
        except DamagedError as error:
            raise RunError(f"checkpoint {path} is damaged: {error}") from error
    inside = path / "checkpoints"
    shelf = Shelf(inside if inside.is_dir() else path)
    found = read_newest(shelf, template, None, warn)
    if found is None:
        raise UserError(f"no checkpoint to start from in {path}; allowed is {what}")
    return found


def first_line(error: BaseException) -> str:
    """What an exception of somebody else's says, short enough for one line."""
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:200]


def _read_numbered(folder: Path, number: int, template: Template) -> Any:
    state, iteration = read_checkpoint(folder, template)
    if iteration != number:
        raise DamagedError(f"it is of iteration {iteration}, whatever its name")
    return state


def _read_whole(folder: Path) -> tuple[Arrays, description.Meta]:
    """Arrays and description as they were written, in this version's format."""
    try:
        meta = orbax_io.read_meta(folder)
        arrays = leaves.verified(orbax_io.read_arrays(folder), meta["leaves"])
        return description.upgrade(arrays, meta)
    except UserError as error:
        raise UserError(f"checkpoint {folder} was {error}") from error
    except DamagedError:
        raise
    except Exception as error:  # damaged files fail in every way there is
        raise DamagedError(first_line(error)) from error
