"""The cartpole task's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CartpoleConfig:
    """Swing a pole up and balance it, from random starts."""

    episode_s: float = 10.0
    """Time limit of an episode, s (a truncation)."""
    start_angle: float = 0.3
    """Largest offset of the pole from hanging, rad."""
    randomize: bool = True
    """Randomize the pole's mass and the start state."""
    pole_mass: tuple[float, float] = (0.9, 1.1)
    """Factor on the pole's mass, uniform."""


def sizes(robot: Any) -> tuple[int, int, int]:
    """Numbers in the policy's observation, in the critic's, and in one environment's state."""
    return 5, 5, 40
