"""A second copy of a run on another disk, updated beside the training.

Every file and every checkpoint appears under its name only when it is whole.
"""

from __future__ import annotations

import functools
import shutil
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from jaxrl_hw.checkpointing.description import META
from jaxrl_hw.checkpointing.files import disk_errors, free_name, write_bytes
from jaxrl_hw.checkpointing.run_dir import SMALL_FILES, RunDir
from jaxrl_hw.checkpointing.store import CheckpointStore
from jaxrl_hw.errors import RunError, first_line
from jaxrl_hw.loggers.jsonl import Warn

_QUIET_S = 3.0
"""Closing waits this long before it prints that it waits."""


def locate_run(run: RunDir, mirror: RunDir | None) -> RunDir:
    """The mirror where only the mirror has a checkpoint, else the run's folder.

    Reads names only. Raises RunError where the mirror cannot be read.
    """
    if mirror is None or run.newest_checkpoint():
        return run
    with disk_errors(f"read {mirror.path}, the mirror of {run.path}, which has no checkpoint"):
        return mirror if mirror.newest_checkpoint() else run


class Mirror:
    """A thread that copies the run's folder to the mirror at every request.

    run: the run's folder.
    mirror: its folder in the mirror; created, but not the drive that it is on.
    store: the run's checkpoints, as their writer sees them; keeps one that is being copied.
    warn: called by the thread with every failure; the next request tries again.
    replace: whether another run's mirror of this name is moved aside, not refused.
    """

    def __init__(
        self,
        run: RunDir,
        mirror: RunDir,
        store: CheckpointStore,
        warn: Warn,
        *,
        replace: bool = False,
    ) -> None:
        self.run, self.mirror = run, mirror
        self.timeout_s = 20.0
        """How long leaving a `with` waits for the last copy."""
        self._store, self._warn, self._replace = store, warn, replace
        self._changed = threading.Condition()
        self._requests = self._served = 0
        self._closed = False
        # A daemon: a drive that hangs must not keep the process from ending.
        threading.Thread(target=self._work, name="mirror", daemon=True).start()

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(self.timeout_s)

    def request(self) -> None:
        """Ask for an update and return at once; requests during an update become one."""
        with self._changed:
            self._requests += 1
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait until every request is served, with or without success; False on a timeout."""
        with self._changed:
            wanted = self._requests
            return self._changed.wait_for(lambda: self._served >= wanted, timeout_s)

    def close(self, timeout_s: float) -> None:
        """Update once more and end; warns where that takes longer than the timeout."""
        if self._closed:
            return
        self.request()
        quiet = min(_QUIET_S, timeout_s)
        done = self.wait(quiet)
        if not done and timeout_s > quiet:
            self._warn(f"waiting up to {timeout_s:.0f} s for the mirror {self.mirror.path}")
            done = self.wait(timeout_s - quiet)
        if not done:
            self._warn(
                f"the mirror {self.mirror.path} is not up to date: copying takes longer than "
                f"{timeout_s:.0f} s; run the same command again to update it"
            )
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._served < self._requests or self._closed)
                if self._closed:
                    return
                wanted = self._requests
            try:
                self._update()
            except Exception as error:  # no failure here may stop the training
                self._warn(
                    f"not mirrored: {first_line(error)}; the training continues, and the next "
                    "save tries again"
                )
            with self._changed:
                self._served = wanted
                self._changed.notify_all()

    def _update(self) -> None:
        """Copy the small files and complete checkpoints. Raises RunError and OSError."""
        mirror, store, drive = self.mirror, self._store, self.mirror.path.parent.parent
        if not drive.is_dir():  # else an unmounted drive looks like an empty one
            raise RunError(f"{drive} does not exist (is the drive mounted?)")
        if mirror.newest_checkpoint() and mirror.read_id() != self.run.read_id():
            if not self._replace:
                raise RunError(
                    f"{mirror.path} is the mirror of another run; choose another --mirror or "
                    "--run-dir"
                )
            mirror.path.rename(free_name(mirror.path))
        mirror.path.mkdir(parents=True, exist_ok=True)
        # First the small files: a resumed run cuts rows of metrics.jsonl past its newest
        # checkpoint, but could not invent missing ones.
        _copy_small_files(self.run, mirror)
        copies, iterations = CheckpointStore(mirror.checkpoints), store.iterations()
        for checkpoint in reversed(store.sound()):  # of a damaged one, the mirror's may be whole
            _copy_checkpoint(store, copies, checkpoint.iteration)
        for iteration in copies.iterations():
            # A later one stays until the run has come that far again.
            if iterations and iteration < iterations[-1] and iteration not in iterations:
                copies.delete(iteration)
        copies.sweep()
        self._replace = False  # from now on the mirror is this run's own


def copy_back(mirror: RunDir, run: RunDir) -> None:
    """Copy a run from its mirror into its folder, which must exist and have no checkpoint.

    The checkpoints appear all at once; after a crash in between, the next call starts again.
    Raises RunError where the disk refuses.
    """
    copies = CheckpointStore(run.checkpoints.with_name(".checkpoints.copy"))
    with disk_errors(f"copy {mirror.path} back to {run.path}"):
        shutil.rmtree(copies.directory, ignore_errors=True)
        _copy_small_files(mirror, run)
        source = CheckpointStore(mirror.checkpoints)
        for iteration in source.iterations():
            copies.put(iteration, functools.partial(_copy_folder, source.folder(iteration)))
        if run.checkpoints.exists():  # it holds no checkpoint
            run.checkpoints.rename(free_name(run.checkpoints))
        copies.directory.rename(run.checkpoints)


def copied_back(mirror: RunDir, iterations: Sequence[int]) -> str:
    """A sentence for the user: which checkpoints have come back."""
    return (
        f"copied {len(iterations)} checkpoints back from the mirror {mirror.path}, the newest of "
        f"iteration {iterations[-1]:,}"
    )


def replace_damaged(mirror: RunDir, store: CheckpointStore, iterations: Iterable[int]) -> None:
    """Replace the run's checkpoints of these iterations by the mirror's, newest first.

    store: the run's checkpoints. Raises RunError where the disk refuses.
    """
    copies = CheckpointStore(mirror.checkpoints)
    with disk_errors(f"copy {mirror.checkpoints} back"):
        for iteration in sorted(iterations, reverse=True):
            _copy_checkpoint(copies, store, iteration, even_if_same=True)


def _copy_small_files(source: RunDir, target: RunDir) -> None:
    for name in SMALL_FILES:
        if (source.path / name).exists():
            write_bytes(target.path / name, (source.path / name).read_bytes())


def _copy_checkpoint(
    source: CheckpointStore, target: CheckpointStore, iteration: int, even_if_same: bool = False
) -> None:
    """Copy one checkpoint, unless the target already has the same. Raises OSError."""
    with source.holding(iteration) as folder:
        before = _description(folder)
        if not before or (before == _description(target.folder(iteration)) and not even_if_same):
            return

        def write(to: Path) -> None:
            _copy_folder(folder, to)
            if _description(folder) != before:  # saved again meanwhile: the next request copies it
                raise OSError(f"{folder} changed while it was copied")

        target.put(iteration, write)


def _copy_folder(source: Path, target: Path) -> None:
    """Copy contents only, unlike shutil.copytree: many a drive refuses times and permissions."""
    target.mkdir()
    for path in sorted(source.rglob("*")):  # a folder comes before its files
        to = target / path.relative_to(source)
        if path.is_dir():
            to.mkdir()
        else:
            shutil.copyfile(path, to)


def _description(folder: Path) -> bytes:
    """Identifies a checkpoint: it holds the checksums of all arrays."""
    try:
        return (folder / META / "metadata").read_bytes()
    except OSError:
        return b""
