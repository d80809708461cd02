"""The folder `checkpoints/`: which checkpoints are complete, which is best, which are deleted.

Reads descriptions, never arrays; needs no JAX and no Orbax.

Orbax's CheckpointManager is not used (tried with 0.12.8). It refuses to save a step that exists,
even with `force`; where the newest step is cut it fails and does not fall back to an older one; it
restores flipped bits without an error and lists a step whose metadata is missing; and each save
waits for the one before. Its preservation policies know neither damaged checkpoints nor those that
the mirror is copying. What would remain of it is the loop in `tidy`.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.checkpointing.description import (
    DamagedError,
    Score,
    finite,
    is_exact,
    read_meta,
    score,
)
from jaxrl_hw.errors import UserError

_LEFTOVER = re.compile(r"\d+\.(part|new|old|.*copy|(.*\.)?orbax-checkpoint-tmp.*)")
"""What a killed process leaves behind beside a checkpoint."""


class SavedCheckpoint(NamedTuple):
    """One complete checkpoint folder."""

    iteration: int
    folder: Path
    score: Score | None = None
    episode_return: float | None = None
    """Mean of the episodes that ended; None where none had."""
    evaluation: dict[str, float | None] | None = None
    """Figures of its evaluation; None where it has none."""
    is_exact: bool = True
    """Whether a run continues from it to the last bit."""
    problem: str = ""
    """Why it cannot be restored, "" where no reason is known."""


def list_iterations(directory: Path) -> list[int]:
    """Iterations of the complete checkpoints, oldest first. Reads names only.

    A checkpoint gets its number as a name when it is complete.
    """
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return []
    names = [entry.name for entry in entries if entry.name.isdecimal() and entry.is_dir()]
    return sorted(int(name) for name in names if str(int(name)) == name)


def list_checkpoints(directory: Path) -> list[SavedCheckpoint]:
    """All complete checkpoints, oldest first."""
    return [inspect_checkpoint(directory / str(number)) for number in list_iterations(directory)]


def inspect_checkpoint(folder: Path) -> SavedCheckpoint:
    """Look at the checkpoint in a folder that is named by its iteration; reads no arrays."""
    found = SavedCheckpoint(int(folder.name), folder)
    try:
        meta = read_meta(folder)
        figures = meta.get("evaluation")
        found = found._replace(
            score=score(meta),
            episode_return=finite(meta.get("episode_return")),
            evaluation=figures if isinstance(figures, dict) else None,
            is_exact=is_exact(meta),
        )
    except OSError as error:
        return found._replace(problem=f"no description ({error.strerror or error})")
    except DamagedError as error:
        return found._replace(problem=str(error))
    except UserError:  # of a newer version: `restore` says so
        return found
    return found if (folder / "state").is_dir() else found._replace(problem="no arrays")


def newest_checkpoint(saved: list[SavedCheckpoint]) -> SavedCheckpoint | None:
    """The latest without a known problem."""
    return next((one for one in reversed(saved) if not one.problem), None)


def best_checkpoint(saved: list[SavedCheckpoint]) -> SavedCheckpoint | None:
    """The one with the highest score, the newest of equals; None where none has a score."""
    scored = [(one.score, one.iteration, one) for one in saved if one.score and not one.problem]
    return max(scored)[2] if scored else None


class CheckpointStore:
    """Complete checkpoints, one folder each, named by their iteration.

    keep: how many of the latest stay, besides the best one.
    keep_every: checkpoints of every so many iterations stay too; 0 for none.
    """

    def __init__(self, directory: Path, keep: int = 3, keep_every: int = 0) -> None:
        self.directory = directory
        self.damaged: set[int] = set()
        """Iterations whose arrays are damaged: not counted, not deleted, replaced by a save."""
        self._keep, self._keep_every = keep, keep_every
        self._created = time.time()
        self._in_use: Counter[int] = Counter()
        self._guard = threading.Lock()  # between `delete` and `hold`

    def folder(self, iteration: int) -> Path:
        """The folder of an iteration's checkpoint, whether it exists or not."""
        return self.directory / str(iteration)

    def iterations(self) -> list[int]:
        """Iterations of the complete checkpoints, oldest first."""
        return list_iterations(self.directory)

    def sound(self) -> list[SavedCheckpoint]:
        """The checkpoints without a known problem, oldest first; reads their descriptions."""
        saved = list_checkpoints(self.directory)
        return [one for one in saved if not one.problem and one.iteration not in self.damaged]

    def put(self, iteration: int, write: Callable[[Path], None]) -> None:
        """Let `write` make a folder, which gets the iteration as its name when it is complete.

        A checkpoint that is already there stays until then. A failure leaves nothing behind.
        """
        folder = self.folder(iteration)
        part, new, old = (folder.with_suffix(end) for end in (".part", ".new", ".old"))
        self.directory.mkdir(parents=True, exist_ok=True)
        self._sweep(iteration)
        try:
            write(part)
        except BaseException:
            # On a full disk half a checkpoint would keep the next, smaller one from being written.
            self._sweep(iteration)
            raise
        part.rename(new)
        if folder.exists():
            folder.rename(old)
        new.rename(folder)
        self._sweep(iteration)
        self.damaged.discard(iteration)

    @contextlib.contextmanager
    def holding(self, iteration: int) -> Iterator[Path]:
        """`hold` inside a `with`; yields the folder, which may be missing."""
        self.hold(iteration)
        try:
            yield self.folder(iteration)
        finally:
            with self._guard:
                self._in_use[iteration] -= 1

    def hold(self, iteration: int) -> None:
        """Keep a checkpoint from deletion as long as this object lives."""
        with self._guard:
            self._in_use[iteration] += 1

    def tidy(self) -> None:
        """Delete all but the latest `keep`, the best, those of every `keep_every`, those in use."""
        sound = self.sound()
        best = best_checkpoint(sound)
        for one in sound[: -self._keep]:
            permanent = self._keep_every > 0 and one.iteration % self._keep_every == 0
            if one is not best and not permanent:
                self.delete(one.iteration)
        self.sweep()

    def sweep(self) -> None:
        """Delete partial folders of processes that crashed."""
        # A younger folder may belong to a process that is writing it now.
        self._sweep("*", self._created)

    def _sweep(self, iteration: int | str, before: float = math.inf) -> None:
        for path in self.directory.glob(f"{iteration}.*"):
            with contextlib.suppress(OSError):
                if _LEFTOVER.fullmatch(path.name) and path.stat().st_mtime < before:
                    shutil.rmtree(path, ignore_errors=True)

    def recover(self) -> None:
        """Finish a `put` whose process was killed between its two renames.

        Only the run's one writer may call this, before it lists the checkpoints.
        """
        for new in self.directory.glob("*.new"):
            folder = new.with_suffix("")
            if folder.name.isdecimal() and not folder.exists():
                with contextlib.suppress(OSError):
                    new.rename(folder)

    def delete(self, iteration: int) -> bool:
        """Delete a checkpoint; False where it is in use."""
        self._sweep(iteration)
        with self._guard:
            if self._in_use[iteration] > 0:
                return False
            # Renamed first: a half deleted checkpoint must not look complete.
            self.folder(iteration).rename(self.folder(iteration).with_suffix(".old"))
        self._sweep(iteration)
        return True
