"""The folder of checkpoints: which are there, which is best, which go."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from jaxrl_hw.checkpointing import orbax_io
from jaxrl_hw.checkpointing.arrays import DamagedError
from jaxrl_hw.checkpointing.ranking import Score, score
from jaxrl_hw.errors import UserError

_LEFTOVER = re.compile(r"\d+\.(new|old|(new\.)?([0-9a-f]+\.copy|orbax-checkpoint-tmp.*))")


class Shelf:
    """Complete checkpoints, one folder each, named by their iteration.

    keep: how many of the latest stay, and the one with the best score besides.
    keep_every: those of every so many iterations stay too; 0 for none.
    """

    def __init__(self, directory: Path, keep: int = 3, keep_every: int = 0) -> None:
        self.directory = directory
        self.damaged: set[int] = set()
        """Found damaged: neither counted nor deleted, but replaced when their turn comes again."""
        self._keep = keep
        self._keep_every = keep_every
        self._born = time.time()
        self._scores: dict[int, Score | None] = {}
        self._held: Counter[int] = Counter()
        self._guard = threading.Lock()  # between what is deleted and what is taken into use

    def folder(self, iteration: int) -> Path:
        """Where the checkpoint of an iteration is, or would be."""
        return self.directory / str(iteration)

    def iterations(self) -> list[int]:
        """What is complete (a folder gets its number only then), oldest first."""
        try:
            entries = list(os.scandir(self.directory))
        except OSError:
            return []
        numbers = (e.name for e in entries if e.name.isdecimal() and e.is_dir())
        return sorted(int(name) for name in numbers if str(int(name)) == name)

    def best(self) -> int | None:
        """The iteration with the highest score, the newest of equals."""
        scored = [(s, n) for n in self._sound() if (s := self._score(n)) is not None]
        return max(scored)[1] if scored else None

    def is_sound(self, iteration: int) -> bool:
        """Whether nothing is known against a checkpoint, after a look at its description."""
        self._scores.pop(iteration, None)
        self._score(iteration)
        return iteration not in self.damaged

    def put(self, iteration: int, write: Callable[[Path], None]) -> None:
        """Let `write` make the folder of an iteration; one of that name stays until it has."""
        self.directory.mkdir(parents=True, exist_ok=True)
        folder = self.folder(iteration)
        for left in self.directory.glob(f"{iteration}.orbax-checkpoint-tmp*"):
            shutil.rmtree(left, ignore_errors=True)  # of a writer that was killed
        if folder.exists():
            new, old = folder.with_name(f"{iteration}.new"), folder.with_name(f"{iteration}.old")
            for left in (new, old):
                shutil.rmtree(left, ignore_errors=True)
            write(new)
            folder.rename(old)
            new.rename(folder)
            shutil.rmtree(old, ignore_errors=True)
        else:
            write(folder)
        self.damaged.discard(iteration)
        self._scores.pop(iteration, None)

    @contextlib.contextmanager
    def holding(self, iteration: int) -> Iterator[Path]:
        """Keep a checkpoint from being deleted for a while; gives its folder, which may be gone."""
        self.hold(iteration)
        try:
            yield self.folder(iteration)
        finally:
            with self._guard:
                self._held[iteration] -= 1

    def hold(self, iteration: int) -> None:
        """Keep a checkpoint from being deleted as long as this object lives."""
        with self._guard:
            self._held[iteration] += 1

    def tidy(self) -> None:
        """Delete what need not stay, and sweep.

        What stays: the latest `keep`, the best, those of every `keep_every`, and those in use.
        """
        best, sound = self.best(), self._sound()
        for iteration in sound[: -self._keep]:
            permanent = self._keep_every > 0 and iteration % self._keep_every == 0
            if iteration != best and not permanent:
                self.delete(iteration)
        self.sweep()

    def sweep(self) -> None:
        """Delete what crashed writers have left."""
        if not self.directory.is_dir():
            return
        for entry in list(os.scandir(self.directory)):
            # Older than this process's work: a folder in the making by another one is younger.
            with contextlib.suppress(OSError):
                if _LEFTOVER.fullmatch(entry.name) and entry.stat().st_mtime < self._born:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def recover(self) -> None:
        """Finish what a writer that was killed between the two renames of `put` has left.

        For the run's only writer, before it looks which checkpoints there are.
        """
        for new in self.directory.glob("*.new"):
            folder = new.with_suffix("")
            if folder.name.isdecimal() and not folder.exists():
                with contextlib.suppress(OSError):
                    new.rename(folder)  # it has this name only when it is complete

    def delete(self, iteration: int) -> bool:
        """Delete a checkpoint, unless it is in use."""
        folder, old = self.folder(iteration), self.folder(iteration).with_name(f"{iteration}.old")
        shutil.rmtree(old, ignore_errors=True)
        with self._guard:
            if self._held[iteration] > 0:
                return False
            # Renamed first: half a deleted checkpoint must not look like a complete one.
            folder.rename(old)
        shutil.rmtree(old, ignore_errors=True)
        return True

    def _sound(self) -> list[int]:
        return [number for number in self.iterations() if number not in self.damaged]

    def _score(self, iteration: int) -> Score | None:
        if iteration not in self._scores:
            try:
                self._scores[iteration] = score(orbax_io.read_meta(self.folder(iteration)))
            except (DamagedError, FileNotFoundError):
                if self.folder(iteration).is_dir():  # else it has just been deleted
                    self.damaged.add(iteration)
                return None
            except (OSError, UserError):
                return None
        return self._scores[iteration]
