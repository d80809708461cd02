"""The cartpole task's settings."""

from __future__ import annotations

from dataclasses import dataclass

from jaxrl_hw.envs.tasks import TaskEntry
from jaxrl_hw.types import setting


@dataclass(frozen=True)
class CartpoleConfig:
    """Swing a pole up and balance it, from random starts."""

    episode_s: float = setting(10.0, unit="s", at_least=0.1, driven=1e6)
    """Time limit of an episode (a truncation)."""
    start_angle: float = setting(0.3, unit="rad", stage=True)
    """Largest offset of the pole from hanging."""
    randomize: bool = setting(True, driven=True)
    """Randomize the pole's mass and the start state."""
    pole_mass: tuple[float, float] = setting((0.9, 1.1), above=0.0, stage=True, driven=(1.0, 1.0))
    """Factor on the pole's mass, uniform."""


ENTRY = TaskEntry(
    "cartpole",
    CartpoleConfig,
    lambda robot: not robot.feet,
    sizes=lambda robot, settings: (5, 5, 40),
    has_motion=False,
)
