"""Checkpoints of a run: saved beside the training, restored to the last bit."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.checkpointing import description, leaves, orbax_io
from jaxrl_hw.checkpointing.description import Arrays, Meta
from jaxrl_hw.checkpointing.files import free_bytes
from jaxrl_hw.checkpointing.restore import Template, read_newest
from jaxrl_hw.checkpointing.store import CheckpointStore
from jaxrl_hw.errors import UserError, first_line
from jaxrl_hw.loggers.jsonl import Warn, log_warning

_MAX_WAIT_S = 1.0
"""A save waits for the one before only until that has been written for so long. A usual disk then
writes every save of the shortest iterations, and a slow one holds up nobody."""


class _Job(NamedTuple):
    iteration: int
    arrays: Arrays
    meta: Meta


class Checkpoints:
    """The folder `checkpoints/<iteration>/`, and one thread that writes into it.

    directory: created by the first save.
    keep: how many of the latest stay, besides the one with the best score (`description.Score`).
    warn: called with failed saves (by the writing thread, at once) and damaged checkpoints.
    keep_every: checkpoints of every so many iterations stay as well; 0 for none.
    config: the run's settings, saved with every checkpoint; may be replaced during the run.
    on_saved: called by the writing thread after every checkpoint that is on disk.
    write: writes a checkpoint folder.
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
        write: Callable[[Path, Arrays, Meta], None] = orbax_io.write,
    ) -> None:
        if keep < 1:
            raise UserError(f"--keep must be at least 1, got {keep}")
        self.store = CheckpointStore(Path(directory), keep, keep_every)
        self.config = dict(config or {})
        self.blocked_s = 0.0
        """Seconds for which `save` has blocked the training."""
        self.saved_s = 0.0
        """Seconds spent writing, beside the training."""
        self._warn, self._on_saved, self._write = warn, on_saved, write
        self._lock = threading.Lock()  # guards the next two
        self._settled: set[int] = set()  # on disk as this run has them, or waiting to be written
        self._waiting: _Job | None = None
        self._skipped = 0
        self._busy_since = 0.0
        self._last: futures.Future[None] | None = None
        self._worker = futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._worker.submit(orbax_io.load_orbax)  # takes seconds, during the first compilation

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def save(
        self,
        iteration: int,
        state: Any,
        metrics: Mapping[str, Any],
        *,
        stage: int = 0,
        is_exact: bool = True,
        force: bool = False,
    ) -> bool:
        """Copy the state to the host, then write it in the background; False if it is on disk.

        is_exact: whether the state is all that a run needs to go on to the last bit.
        Blocks for the copy, and for the save before where that began less than a second ago. The
        state may be donated when this returns. On a slow disk this save replaces one that still
        waits for its turn, with a warning: at most two copies are in memory. An iteration that this
        object has saved or restored is not written again without `force`; one of an earlier session
        is replaced when the new one is complete. A failure to write warns and does not raise.
        """
        began = time.monotonic()
        with self._lock:
            if iteration in self._settled and not force:
                return False
        if self._last is not None:
            futures.wait([self._last], timeout=max(0.0, self._busy_since + _MAX_WAIT_S - began))
        arrays, described = leaves.to_arrays(state)
        meta = {
            "iteration": int(iteration),
            "episode_return": description.finite(metrics.get("episode_return")),
            "evaluation": description.evaluation_of(metrics),
            "stage": stage,
            "exact_resume": is_exact,
            "config": self.config,
            "leaves": described,
        }
        self._enqueue(_Job(iteration, arrays, meta))
        self.blocked_s += time.monotonic() - began
        return True

    def _enqueue(self, job: _Job) -> None:
        with self._lock:
            skipped, self._waiting = self._waiting, job
            if skipped is None:
                if self._last is None or self._last.done():
                    self._busy_since = time.monotonic()
                self._last = self._worker.submit(self._write_waiting)
            else:
                self._settled.discard(skipped.iteration)
            self._settled.add(job.iteration)
        if skipped is None:
            return
        self._skipped += 1
        if self._skipped & (self._skipped - 1) == 0:  # warn at 1, 2, 4, 8: the disk stays slow
            self._warn(
                f"checkpoint {skipped.iteration} is skipped: the disk is slow and still writes an "
                f"earlier one; {job.iteration} is saved instead ({self._skipped} skipped so far)"
            )

    def wait(self) -> None:
        """Block until every save is on disk or has failed with a warning."""
        if self._last is not None:
            self._last.result()
            self._last = None

    def close(self) -> None:
        """Finish writing and end the thread; nothing can be saved afterwards."""
        self.wait()
        self._worker.shutdown(wait=True)

    def iterations(self) -> list[int]:
        """Iterations of the complete checkpoints, oldest first."""
        return self.store.iterations()

    def has(self, iteration: int) -> bool:
        """Whether the checkpoint that this object saved or restored is on disk; waits for it."""
        self.wait()
        return iteration in self._settled and iteration in self.iterations()

    def restore(self, template: Template, iteration: int | None = None) -> tuple[Any, int] | None:
        """Read the newest checkpoint that is not damaged, or the one of `iteration`.

        template: a state, its jax.ShapeDtypeStructs, or a function that makes one of these from the
        settings that the checkpoint was saved with.
        Returns (state, iteration), or None where there is no checkpoint. Damaged ones are reported
        to `warn`, skipped and left on disk. The restored one stays as long as this object lives.
        Raises UserError where the form differs, a newer version wrote it or the iteration does not
        exist, restore.AllDamagedError where all are damaged.
        """
        self.wait()
        found = read_newest(self.store, template, iteration, self._warn)
        if found is not None:
            self._settled.add(found[1])
            self.store.hold(found[1])
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
            self.store.put(job.iteration, lambda folder: self._write(folder, job.arrays, meta))
        except Exception as error:  # no failure here may stop the training
            with self._lock:
                self._settled.discard(job.iteration)
            room = free_bytes(self.store.directory)
            free = "" if room is None else f" ({room / 1e9:.2f} GB free on that disk)"
            self._warn(
                f"CHECKPOINT {job.iteration} WAS NOT SAVED in {self.store.directory}: "
                f"{first_line(error)}{free}; the training continues"
            )
            return
        finally:
            self.saved_s += time.monotonic() - began
        try:
            self.store.tidy()
        except OSError as error:
            self._warn(f"old checkpoints could not be deleted: {first_line(error)}")
        if self._on_saved is not None:
            self._on_saved()
