"""Trained policies of the package: a folder each, named after the robot.

    policy.npz        the policy, see `jaxrl_hw.policies`
    config.json       the settings it was trained with, as in a run's folder
    metrics.jsonl     its learning curve, a few hundred rows
    evaluation.json   the figures of `jaxrl_hw.evaluate`
    origin.json       commands, seed, steps, minutes, hardware, versions

`scripts/make_zoo.py` fills such a folder from a finished run. Nothing here imports jax.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.files import read_json
from jaxrl_hw.errors import UserError, suggest
from jaxrl_hw.loggers.jsonl import read_columns

ROOT = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Entry:
    """One policy of the zoo."""

    name: str
    folder: Path

    @property
    def policy(self) -> Path:
        """Its policy.npz."""
        return self.folder / "policy.npz"

    @property
    def config(self) -> dict[str, Any]:
        """The settings it was trained with."""
        return dict(self._json("config.json")["config"])

    @property
    def evaluation(self) -> dict[str, Any]:
        """The figures of `jaxrl_hw.evaluate`."""
        return dict(self._json("evaluation.json"))

    @property
    def origin(self) -> dict[str, Any]:
        """How it was made: commands, seed, steps, minutes, hardware, versions."""
        return dict(self._json("origin.json"))

    @property
    def metrics(self) -> dict[str, list[Any]]:
        """Its learning curve as columns."""
        return read_columns(self.folder / "metrics.jsonl")

    def _json(self, name: str) -> Any:
        found = read_json(self.folder / name, "install the package again")
        if found is None:
            raise UserError(f'the policy "{self.name}" has no {name} in {self.folder}')
        return found


def names(root: Path = ROOT) -> tuple[str, ...]:
    """The policies in a zoo, sorted."""
    return tuple(sorted(path.parent.name for path in root.glob("*/policy.npz")))


def entry(name: str, root: Path = ROOT) -> Entry:
    """The policy of that name. Raises UserError where there is none."""
    known = names(root)
    if name not in known:
        there = f"there are {', '.join(known)}" if known else "there is none in this version"
        raise UserError(f'no policy "zoo:{name}": {there}{suggest(name, known)}')
    return Entry(name, root / name)
