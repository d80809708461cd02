"""Trained policies of the package: a folder each, named after the robot.

    policy.npz        the policy, see `jaxrl_hw.policies`
    config.json       the settings it was trained with, as in a run's folder
    metrics.jsonl     its learning curve, a few hundred rows
    evaluation.json   the figures of `jaxrl_hw.evaluate`
    origin.json       commands, seed, steps, minutes, hardware, versions

`scripts/make_zoo.py` fills such a folder from a finished run. Nothing here imports jax.
"""

from __future__ import annotations

from pathlib import Path

from jaxrl_hw.errors import UserError, suggest

ROOT = Path(__file__).resolve().parent


def names(root: Path = ROOT) -> tuple[str, ...]:
    """The policies in a zoo, sorted."""
    return tuple(sorted(path.parent.name for path in root.glob("*/policy.npz")))


def folder_of(name: str, root: Path = ROOT) -> Path:
    """The folder of the policy of that name. Raises UserError where there is none."""
    known = names(root)
    if name not in known:
        there = f"there are {', '.join(known)}" if known else "there is none in this version"
        raise UserError(f'no policy "zoo:{name}": {there}{suggest(name, known)}')
    return root / name
