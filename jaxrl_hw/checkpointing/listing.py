"""Checkpoints as their folders tell: which are there, how good, how large. Reads no arrays."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import NamedTuple

from jaxrl_hw.checkpointing.ranking import Score, score


class Saved(NamedTuple):
    """One complete checkpoint folder."""

    iteration: int
    folder: Path
    score: Score | None
    problem: str
    """Why it cannot be restored, "" where nothing speaks against it."""

    @property
    def episode_return(self) -> float | None:
        return self.score.episode_return if self.score else None


def saved_checkpoints(directory: Path) -> list[Saved]:
    """All complete checkpoints, oldest first; a folder gets its number only when it is complete."""
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return []
    numbers = (entry.name for entry in entries if entry.name.isdecimal() and entry.is_dir())
    there = sorted(int(name) for name in numbers if str(int(name)) == name)
    return [_look_at(number, directory / str(number)) for number in there]


def newest(saves: list[Saved]) -> Saved | None:
    """The latest that can be restored, as far as can be told."""
    sound = [save for save in saves if not save.problem]
    return sound[-1] if sound else None


def best(saves: list[Saved]) -> Saved | None:
    """The one with the highest score, the newest of equals; None without a return."""
    scored = [(save.score, save.iteration, save) for save in saves if save.score]
    sound = [one for one in scored if not one[2].problem]
    return max(sound)[2] if sound else None


def disk_size(folder: Path) -> int:
    """Bytes of all files below a folder; what vanishes meanwhile does not count."""
    total, folders = 0, [str(folder)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
            except OSError:
                continue
    return total


def _look_at(iteration: int, folder: Path) -> Saved:
    try:
        meta = json.loads((folder / "meta" / "metadata").read_text(encoding="utf-8"))
    except OSError as error:
        return Saved(iteration, folder, None, f"no description ({error.strerror or error})")
    except (ValueError, RecursionError):
        return Saved(iteration, folder, None, "its description is not JSON")
    if not isinstance(meta, dict) or not isinstance(meta.get("leaves"), dict):
        return Saved(iteration, folder, None, "its description is incomplete")
    problem = "" if (folder / "state").is_dir() else "its arrays are missing"
    return Saved(iteration, folder, score(meta), problem)
