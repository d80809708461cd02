"""Checkpoints of a run: saved beside the training, restored to the last bit."""

from __future__ import annotations

import logging
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from jaxrl_hw.checkpointing import description, leaves, orbax_io, restore
from jaxrl_hw.checkpointing.arrays import Arrays
from jaxrl_hw.checkpointing.restore import Template, Warn
from jaxrl_hw.checkpointing.retention import Shelf
from jaxrl_hw.errors import UserError

_BEST_BY = "episode_return"

_PATIENCE_S = 1.0
"""A save waits for those before it only as long as the writing has gone on for less than this: on a
usual disk every save of the shortest iterations is written, and on a slow one nobody waits."""


def log_warning(message: str) -> None:
    """The default `warn`: Python's log."""
    logging.getLogger("jaxrl_hw").warning(message)


class _Job(NamedTuple):
    iteration: int
    arrays: Arrays
    meta: description.Meta


class Checkpoints:
    """The folder `checkpoints/<iteration>/`, and one thread that writes into it.

    directory: created at the first save.
    keep: how many of the latest stay; the one with the best `episode_return` of the run's
        latest stretch stays besides.
    keep_every: those of every so many iterations stay as well; 0 for none.
    warn: told of failed saves (from the writing thread, at once) and of damaged checkpoints.
    config: the run's settings, saved with every checkpoint; they may change on the way.
    on_saved: called in the writing thread after every checkpoint that is on disk.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int = 3,
        warn: Warn = log_warning,
        *,
        keep_every: int = 0,
        config: Mapping[str, Any] | None = None,
        on_saved: Callable[[], None] | None = None,
    ) -> None:
        if keep < 1:
            raise UserError(f"--keep must be at least 1, got {keep}")
        self.shelf = Shelf(Path(directory), keep, keep_every)
        self.blocked_s = 0.0
        """Seconds that `save` has held up the training."""
        self.saved_s = 0.0
        """Seconds spent writing, beside the training."""
        self._warn = warn
        self.config = dict(config or {})
        self._on_saved = on_saved
        self._lock = threading.Lock()  # of the two below
        self._settled: set[int] = set()  # on disk exactly as this run has them, or to be
        self._waiting: _Job | None = None
        self._left_out = 0
        self._busy_since = 0.0
        self._last: futures.Future[None] | None = None
        self._worker = futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
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
        self,
        iteration: int,
        state: Any,
        metrics: Mapping[str, Any],
        *,
        stage: int = 0,
        force: bool = False,
    ) -> bool:
        """Copy the state to the host, then write it in the background; False if it is on disk.

        Blocks for the copy, and where writing has begun within a second for that as well. When it
        returns the state may be donated. Where the disk is so slow that an earlier save still waits
        for its turn, this one takes its place, with a warning: two copies are held at most. An
        iteration that this object has saved or restored is not written again, unless with `force`;
        one left by an earlier session is replaced, the old one staying until the new one is
        complete. Failing to write is a warning, not an exception.
        """
        began = time.monotonic()
        with self._lock:
            if iteration in self._settled and not force:
                return False
        if self._last is not None:
            futures.wait([self._last], timeout=max(0.0, self._busy_since + _PATIENCE_S - began))
        arrays, description = leaves.to_arrays(state)
        meta = {
            "iteration": int(iteration),
            _BEST_BY: _number(metrics.get(_BEST_BY)),
            "stage": stage,
            "config": self.config,
            "leaves": description,
        }
        self._hand_over(_Job(iteration, arrays, meta))
        self.blocked_s += time.monotonic() - began
        return True

    def _hand_over(self, job: _Job) -> None:
        with self._lock:
            left_out, self._waiting = self._waiting, job
            if left_out is None:
                if self._last is None or self._last.done():
                    self._busy_since = time.monotonic()
                self._last = self._worker.submit(self._write_waiting)
            else:
                self._settled.discard(left_out.iteration)
            self._settled.add(job.iteration)
        if left_out is None:
            return
        self._left_out += 1
        if self._left_out & (self._left_out - 1) == 0:  # 1, 2, 4, 8: a slow disk stays slow
            self._warn(
                f"checkpoint {left_out.iteration} is left out: the disk is slow, one before it is "
                f"still being written; {job.iteration} is saved in its place "
                f"({self._left_out} left out so far)"
            )

    def wait(self) -> None:
        """Block until what was saved is on disk, or its failure has been told."""
        if self._last is not None:
            self._last.result()
            self._last = None

    def close(self) -> None:
        """Finish writing and end the thread; nothing can be saved afterwards."""
        self.wait()
        self._worker.shutdown(wait=True)

    def iterations(self) -> list[int]:
        """Iterations of the complete checkpoints, oldest first."""
        return self.shelf.iterations()

    def best(self) -> int | None:
        """The iteration of the best checkpoint (`ranking.score`), None without one."""
        return self.shelf.best()

    def has(self, iteration: int) -> bool:
        """Whether the checkpoint that this object saved or restored is on disk; waits for it."""
        self.wait()
        return iteration in self._settled and iteration in self.iterations()

    def restore(self, template: Template, iteration: int | None = None) -> tuple[Any, int] | None:
        """Read the newest checkpoint that is whole, or the one of `iteration`.

        template: a state, its jax.ShapeDtypeStructs, or a function that makes one of these from the
        settings that the checkpoint was saved with.
        Returns (state, iteration), or None where there is no checkpoint. Damaged ones are told to
        `warn`, passed over and left on disk; what is restored stays as long as this object lives.
        Raises UserError where the form differs, a newer version wrote it or the iteration is not
        there, restore.AllDamagedError where none is whole.
        """
        self.wait()
        found = restore.read_newest(self.shelf, template, iteration, self._warn)
        if found is not None:
            self._settled.add(found[1])
            self.shelf.hold(found[1])
        return found

    def _write_waiting(self) -> None:
        with self._lock:
            job, self._waiting = self._waiting, None
        if job is None:
            return
        began = time.monotonic()
        try:
            leaves.add_checksums(job.arrays, job.meta["leaves"])
            meta = description.seal(job.meta)
            self.shelf.put(job.iteration, lambda folder: orbax_io.write(folder, job.arrays, meta))
        except Exception as error:  # whatever it is, the training goes on
            with self._lock:
                self._settled.discard(job.iteration)
            self._warn(
                f"CHECKPOINT {job.iteration} WAS NOT SAVED in {self.shelf.directory}: "
                f"{restore.first_line(error)}{self._space_left()}; the training goes on"
            )
            return
        finally:
            self.saved_s += time.monotonic() - began
        self._after_writing()

    def _after_writing(self) -> None:
        try:
            self.shelf.tidy()
        except OSError as error:
            self._warn(f"old checkpoints could not be removed: {restore.first_line(error)}")
        if self._on_saved is not None:
            self._on_saved()

    def _space_left(self) -> str:
        try:
            free = shutil.disk_usage(self.shelf.directory).free
        except OSError:
            return ""
        return f" ({free / 1e9:.2f} GB free on that disk)"


def restore_from(
    path: str | os.PathLike[str], template: Template, warn: Warn = log_warning
) -> tuple[Any, int]:
    """Read (state, iteration) from what the user names: a run, its checkpoints, or one of these.

    Of several the newest whole one is taken; nothing is written. Raises UserError where there is no
    checkpoint or its form differs from `template`, RunError where all are damaged.
    """
    return restore.restore_from(Path(path).expanduser(), template, warn)


def _number(value: Any) -> float | None:
    number = float("nan") if value is None else float(value)
    return number if math.isfinite(number) else None
