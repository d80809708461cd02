"""The folder of checkpoints: which are there, which is best, which go."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

from jaxrl_hw.sessions import orbax_io

_LEFTOVER = re.compile(r"\d+\.(new|old|new\.orbax-checkpoint-tmp.*|orbax-checkpoint-tmp.*)")


class Shelf:
    """Complete checkpoints, one folder each, named by their iteration."""

    def __init__(self, directory: Path, keep: int) -> None:
        self.directory = directory
        self.damaged: set[int] = set()
        """Found damaged: neither counted nor deleted, but replaced when their turn comes again."""
        self._keep = keep
        self._born = time.time()
        self._scores: dict[int, float | None] = {}

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

    def tidy(self) -> None:
        """Delete all but the latest `keep` and the best, and what crashed writers have left."""
        sound = self._sound()
        kept = {*sound[-self._keep :], self.best()}
        for iteration in sound:
            if iteration not in kept:
                self._delete(iteration)
        for entry in list(os.scandir(self.directory)):
            # Older than this process's work: a folder in the making by another one is younger.
            with contextlib.suppress(OSError):
                if _LEFTOVER.fullmatch(entry.name) and entry.stat().st_mtime < self._born:
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _sound(self) -> list[int]:
        return [number for number in self.iterations() if number not in self.damaged]

    def _score(self, iteration: int) -> float | None:
        if iteration not in self._scores:
            try:
                value = orbax_io.read_meta(self.folder(iteration)).get("episode_return")
                self._scores[iteration] = None if value is None else float(value)
            except (OSError, ValueError, TypeError):
                self._scores[iteration] = None
        return self._scores[iteration]

    def _delete(self, iteration: int) -> None:
        # Renamed first: half a deleted checkpoint must not look like a complete one.
        old = self.folder(iteration).with_name(f"{iteration}.old")
        shutil.rmtree(old, ignore_errors=True)
        self.folder(iteration).rename(old)
        shutil.rmtree(old, ignore_errors=True)
