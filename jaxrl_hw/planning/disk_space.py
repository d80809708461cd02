"""What a run keeps on disk: which checkpoints, how much room they need, and where the mirror is."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.checkpointing.files import free_bytes
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import UserError
from jaxrl_hw.loggers import formats
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.replay import resumes_exactly


class Storage(NamedTuple):
    """The disk that a run will need."""

    checkpoint_bytes: int
    """Expected of one checkpoint."""
    kept: int
    """Checkpoints on disk at the goal, at most."""
    free_bytes: int | None
    """On the run folder's disk; None where unknown."""
    seeds: int = 1
    """Runs that keep as many."""

    @property
    def total_bytes(self) -> int:
        return self.checkpoint_bytes * self.kept * self.seeds

    @property
    def is_tight(self) -> bool:
        """Whether the disk is too small, counting one more checkpoint while it is written."""
        needed = self.total_bytes + self.checkpoint_bytes
        return self.free_bytes is not None and self.free_bytes < needed

    def to_dict(self) -> dict[str, Any]:
        """For plan.json."""
        return {**self._asdict(), "total_bytes": self.total_bytes}


def storage(config: Config, num_envs: int, folder: Path) -> Storage:
    """The disk that a run in `folder` will need."""
    size = memory_model.checkpoint_bytes(config, num_envs)
    kept = _kept(replace(config, num_envs=num_envs))
    return Storage(size, kept, free_bytes(folder), config.seeds)


def storage_text(config: Config, needed: Storage) -> str:
    """The checkpoints in words: how large, how many, and whether a resume from them is exact."""
    every = f", one every {config.keep_every:,} iterations" if config.keep_every else ""
    of_seeds = f", of each of {needed.seeds} seeds" if needed.seeds > 1 else ""
    free = f"; {formats.size(needed.free_bytes)} free" if needed.free_bytes is not None else ""
    return (
        f"{formats.size(needed.checkpoint_bytes)} each, up to {needed.kept:,} kept (the last "
        f"{config.keep}, the best{every}){of_seeds}: {formats.size(needed.total_bytes)}{free}"
        f"{'' if resumes_exactly(config) else '; without the replay: a resume is not exact'}"
    )


def is_saved(config: Config, iteration: int) -> bool:
    """Whether an iteration before the goal gets a checkpoint."""
    return last_saved(config, iteration) == iteration


def last_saved(config: Config, iteration: int) -> int:
    """The last iteration up to this one that `is_saved`; 0 where there is none."""
    return max(iteration // n * n for n in (config.save_every, config.keep_every or iteration + 1))


def mirror_of(mirror: str, folder: Path) -> RunDir | None:
    """The folder of a run in the mirror, None without a mirror.

    Raises UserError where the mirror is a file, or the run's own folder.
    """
    if not mirror:
        return None
    place = Path(mirror).expanduser()
    if place.is_file():
        raise UserError(f"--mirror must be a folder, but {place} is a file; choose another")
    copy = place / folder.resolve().name
    if copy.resolve() == folder.resolve():
        raise UserError(
            f"--mirror {place} would copy {folder} onto itself; choose a folder on another disk"
        )
    return RunDir(copy)


def _kept(config: Config) -> int:
    """How many checkpoints there are at the goal, at most."""
    goal, every, permanent = goal_iteration(config), config.save_every, 0
    saved = goal // every
    if config.keep_every:
        permanent = goal // config.keep_every
        saved += permanent - goal // math.lcm(every, config.keep_every)
    saved += not is_saved(config, goal)  # the goal's own is always saved
    return permanent + min(saved - permanent, config.keep + 1)  # the latest, and the best
