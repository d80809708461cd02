"""Checkpoints of a run: saved beside the training, restored to the last bit."""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.sessions import leaves, orbax_io
from jaxrl_hw.sessions.retention import Shelf

Warn = Callable[[str], None]

_BEST_BY = "episode_return"


def log_warning(message: str) -> None:
    """The default `warn`: Python's log."""
    logging.getLogger("jaxrl_hw").warning(message)


class Checkpoints:
    """The folder `checkpoints/<iteration>/`, and one thread that writes into it.

    directory: created at the first save.
    keep: how many of the latest stay; the one with the best `episode_return` stays besides.
    warn: told of failed saves (from the writing thread, at once) and of damaged checkpoints.
    """

    def __init__(
        self, directory: str | os.PathLike[str], keep: int = 3, warn: Warn = log_warning
    ) -> None:
        if keep < 1:
            raise UserError(f"--keep must be at least 1, got {keep}")
        self._shelf = Shelf(Path(directory), keep)
        self._warn = warn
        self._settled: set[int] = set()  # on disk exactly as this run has them
        self._pending: Future[None] | None = None
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._worker.submit(orbax_io.load_orbax)  # seconds, hidden behind the first compilation

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def save(
        self, iteration: int, state: Any, metrics: Mapping[str, Any], *, force: bool = False
    ) -> bool:
        """Copy the state to the host, then write it in the background; False if it is on disk.

        Blocks for the copy, and for the previous save where that is still being written. When it
        returns the state may be donated. An iteration that this object has saved or restored is
        not written again, unless with `force`; one left by an earlier session is replaced, the old
        one staying until the new one is complete. Failing to write is a warning, not an exception.
        """
        self.wait()
        if iteration in self._settled and not force:
            return False
        arrays, description = leaves.to_arrays(state)
        score = _number(metrics.get(_BEST_BY))
        meta = {"iteration": int(iteration), _BEST_BY: score, "leaves": description}
        self._settled.add(iteration)
        self._pending = self._worker.submit(self._write, iteration, arrays, meta)
        return True

    def wait(self) -> None:
        """Block until what was saved is on disk, or its failure has been told."""
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def close(self) -> None:
        """Finish writing and end the thread; nothing can be saved afterwards."""
        self.wait()
        self._worker.shutdown(wait=True)

    def iterations(self) -> list[int]:
        """Iterations of the complete checkpoints, oldest first."""
        return self._shelf.iterations()

    def best(self) -> int | None:
        """The iteration of the highest `episode_return` among the checkpoints, None without one."""
        return self._shelf.best()

    def restore(self, template: Any, iteration: int | None = None) -> tuple[Any, int] | None:
        """Read the newest checkpoint that is whole, or the one of `iteration`.

        template: a state, or its jax.ShapeDtypeStructs, of the form to be restored.
        Returns (state, iteration), or None where there is no checkpoint. Damaged ones are told to
        `warn`, passed over and left on disk. Raises UserError where the form differs or the
        iteration is not there, RunError where none is whole.
        """
        self.wait()
        there = self.iterations()
        if iteration is not None:
            if iteration not in there:
                names = ", ".join(map(str, there)) or "none"
                raise UserError(f"no checkpoint of iteration {iteration}: there are {names}")
            there = [iteration]
        if not there:
            return None
        damaged: list[str] = []
        for number in reversed(there):
            folder = self._shelf.folder(number)
            try:
                state = self._read(folder, template)
            except leaves.DamagedError as error:
                damaged.append(str(folder))
                self._shelf.damaged.add(number)
                self._warn(f"checkpoint {folder} is damaged and passed over: {error}")
                continue
            self._settled.add(number)
            return state, number
        raise RunError(
            f"no checkpoint could be restored, these are damaged: {', '.join(damaged)}; "
            "restore one from a copy, or start anew with --resume never"
        )

    def _read(self, folder: Path, template: Any) -> Any:
        # In the worker: Orbax runs an event loop, and in a notebook the main thread has its own.
        return self._worker.submit(read_checkpoint, folder, template).result()

    def _write(self, iteration: int, arrays: leaves.Arrays, meta: dict[str, Any]) -> None:
        try:
            leaves.add_checksums(arrays, meta["leaves"])
            self._shelf.put(iteration, lambda folder: orbax_io.write(folder, arrays, meta))
            self._shelf.tidy()
        except Exception as error:  # whatever it is, the training goes on
            if iteration not in self._shelf.iterations():
                self._settled.discard(iteration)
            self._warn(
                f"CHECKPOINT {iteration} WAS NOT SAVED in {self._shelf.directory}: "
                f"{_first_line(error)}{self._space_left()}; the training goes on"
            )

    def _space_left(self) -> str:
        try:
            free = shutil.disk_usage(self._shelf.directory).free
        except OSError:
            return ""
        return f" ({free / 1e9:.2f} GB free on that disk)"


def read_checkpoint(folder: Path, template: Any) -> Any:
    """One checkpoint as a state of `template`'s form.

    Raises UserError where the form differs, leaves.DamagedError where it cannot be read whole.
    """
    try:
        meta = orbax_io.read_meta(folder)
        leaves.check_same(meta["leaves"], template, str(folder))
        return leaves.from_arrays(orbax_io.read_arrays(folder), meta["leaves"], template)
    except (UserError, leaves.DamagedError):
        raise
    except Exception as error:  # damaged files fail in every way there is
        raise leaves.DamagedError(_first_line(error)) from error


def restore_from(
    path: str | os.PathLike[str], template: Any, warn: Warn = log_warning
) -> tuple[Any, int]:
    """Read (state, iteration) from what the user names: a run, its checkpoints, or one of these.

    Of several the newest whole one is taken; nothing is written. Raises UserError where there is no
    checkpoint or its form differs from `template`, RunError where all are damaged.
    """
    folder = Path(path).expanduser()
    what = "a run, its checkpoints folder, or one checkpoint in it"
    if not folder.is_dir():
        state = "is a file" if folder.exists() else "does not exist"
        raise UserError(f"no checkpoint to start from: {folder} {state}; allowed is {what}")
    if orbax_io.is_checkpoint(folder):
        return _restore_one(folder, template)
    inside = folder / "checkpoints"
    with Checkpoints(inside if inside.is_dir() else folder, warn=warn) as checkpoints:
        found = checkpoints.restore(template)
    if found is None:
        raise UserError(f"no checkpoint to start from in {folder}; allowed is {what}")
    return found


def _restore_one(folder: Path, template: Any) -> tuple[Any, int]:
    with ThreadPoolExecutor(max_workers=1) as worker:
        try:
            state = worker.submit(read_checkpoint, folder, template).result()
        except leaves.DamagedError as error:
            raise RunError(f"checkpoint {folder} is damaged: {error}") from error
    return state, int(orbax_io.read_meta(folder)["iteration"])


def _number(value: Any) -> float | None:
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else None


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0][:300]
