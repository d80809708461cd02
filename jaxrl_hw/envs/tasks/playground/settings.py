"""The settings of MuJoCo Playground's environments."""

from __future__ import annotations

from dataclasses import dataclass

from jaxrl_hw.envs.tasks.environments import entry_of
from jaxrl_hw.types import setting


@dataclass(frozen=True)
class PlaygroundConfig:
    """An environment of MuJoCo Playground: --env playground:CartpoleBalance."""

    episode_steps: int = setting(0, unit="control steps", at_least=0, driven=1_000_000)
    """Time limit of an episode (a truncation); 0 is the environment's own."""


ENTRY = entry_of("playground", PlaygroundConfig, package="mujoco_playground")
