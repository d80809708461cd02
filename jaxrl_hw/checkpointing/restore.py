"""Reads checkpoints back. A damaged one is reported and skipped, never believed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing import leaves, orbax_io
from jaxrl_hw.checkpointing.description import (
    MIGRATIONS,
    Arrays,
    DamagedError,
    Meta,
    Migrations,
    read_meta,
    upgrade,
)
from jaxrl_hw.checkpointing.store import CheckpointStore
from jaxrl_hw.errors import RunError, UserError, first_line
from jaxrl_hw.loggers.jsonl import Warn, log_warning

Template = Any
"""The form to restore: a state, its jax.ShapeDtypeStructs, or a function that makes one of these
from the settings (a dict) that the checkpoint was saved with, {} where it has none."""

_ATTEMPTS = 3


class AllDamagedError(RunError):
    """There are checkpoints, and every one is damaged."""


def read_checkpoint(
    folder: Path, template: Template, migrations: Migrations = MIGRATIONS
) -> tuple[Any, int]:
    """One checkpoint as (a state of `template`'s form, its iteration).

    Raises UserError where the form differs or a newer version wrote it, DamagedError where any of
    it is damaged.
    """
    # In a thread: Orbax runs an event loop, and in a notebook the main thread has its own.
    with ThreadPoolExecutor(max_workers=1) as worker:
        arrays, meta = worker.submit(_read_verified, folder, migrations).result()
    form = template(meta["config"]) if callable(template) else template
    leaves.check_same(meta["leaves"], form, str(folder))
    return leaves.from_arrays(arrays, meta["leaves"], form), int(meta["iteration"])


def read_newest(
    store: CheckpointStore, template: Template, iteration: int | None, warn: Warn
) -> tuple[Any, int] | None:
    """(state, iteration) of the newest checkpoint that is not damaged, or of the one named.

    Calls `warn` with each damaged one, adds it to `store.damaged` and leaves it on disk. None
    where there is no checkpoint. Raises UserError where the form differs or the iteration does not
    exist, AllDamagedError where all are damaged.
    """
    for _ in range(_ATTEMPTS):
        candidates = store.iterations()
        if iteration is not None:
            if iteration not in candidates:
                names = ", ".join(map(str, candidates)) or "none"
                raise UserError(f"no checkpoint of iteration {iteration}: there are {names}")
            candidates = [iteration]
        if not candidates:
            return None
        damaged = []
        for number in reversed(candidates):
            folder = store.folder(number)
            try:
                state, found = read_checkpoint(folder, template)
                if found != number:
                    raise DamagedError(f"it is of iteration {found}, whatever its name")
                return state, number
            except DamagedError as error:
                if not folder.exists():
                    continue  # another process trains here and has deleted it
                damaged.append(str(folder))
                store.damaged.add(number)
                warn(f"checkpoint {folder} is damaged and skipped: {error}")
        if damaged:
            raise AllDamagedError(
                f"no checkpoint could be restored, all are damaged: {', '.join(damaged)}; restore "
                "one from a copy, or start a new run with --resume never"
            )
    raise RunError(f"the checkpoints in {store.directory} are deleted while they are read")


def restore_from(
    path: str | os.PathLike[str], template: Template, warn: Warn = log_warning
) -> tuple[Any, int]:
    """Read (state, iteration) from a path of the user: a run, its checkpoints, or one of these.

    Of several the newest whole one is read; nothing is written. Raises UserError where there is no
    checkpoint or its form differs from `template`, RunError where all are damaged.
    """
    path = Path(path).expanduser()
    allowed = "a run, its checkpoints folder, or one checkpoint in it"
    if not path.is_dir():
        state = "is a file" if path.exists() else "does not exist"
        raise UserError(f"no checkpoint to start from: {path} {state}; allowed is {allowed}")
    if orbax_io.is_checkpoint(path):
        try:
            return read_checkpoint(path, template)
        except DamagedError as error:
            raise RunError(f"checkpoint {path} is damaged: {error}") from error
    inside = path / "checkpoints"
    store = CheckpointStore(inside if inside.is_dir() else path)
    found = read_newest(store, template, None, warn)
    if found is None:
        raise UserError(f"no checkpoint to start from in {path}; allowed is {allowed}")
    return found


def _read_verified(folder: Path, migrations: Migrations) -> tuple[Arrays, Meta]:
    """Arrays and description, verified, then upgraded to this version's format."""
    try:
        meta = read_meta(folder, newest=max(migrations) + 1)
        arrays = leaves.verified(orbax_io.read_arrays(folder), meta["leaves"])
        return upgrade(arrays, meta, migrations)
    except UserError as error:
        raise UserError(f"checkpoint {folder} was {error}") from error
    except DamagedError:
        raise
    except Exception as error:  # damaged files fail in every way there is
        raise DamagedError(first_line(error)) from error
