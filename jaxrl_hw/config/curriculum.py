"""A curriculum is data: stages, each with the settings that it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Stage:
    """From an env step of a run on, some settings have other values."""

    env_steps: int
    """The env step, over all environments and sessions, from which the stage holds."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted key, such as {"joystick.reward.fall": -5.0}."""


def stage_index(curriculum: Sequence[Stage], env_steps: int) -> int:
    """How many stages have begun after so many env steps; 0 before the first."""
    return sum(stage.env_steps <= env_steps for stage in curriculum)
