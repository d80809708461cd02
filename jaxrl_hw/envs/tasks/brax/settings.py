"""The settings of Brax's environments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from jaxrl_hw.envs.tasks.environments import entry_of
from jaxrl_hw.types import setting


@dataclass(frozen=True)
class BraxConfig:
    """An environment of Brax: --env brax:ant."""

    backend: Literal["generalized", "mjx", "positional", "spring"] = setting("generalized")
    """Brax's physics: generalized and mjx are the most exact, spring and positional the
    quickest."""
    episode_steps: int = setting(1000, unit="control steps", at_least=1, driven=1_000_000)
    """Time limit of an episode (a truncation)."""


ENTRY = replace(
    entry_of("brax", BraxConfig, package="brax"),
    factorizes=lambda own: own.backend in ("generalized", "mjx"),
)
