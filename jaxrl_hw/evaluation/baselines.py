"""Policies that have learned nothing, which a trained one must beat. Never imports jax."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import unknown
from jaxrl_hw.types import Policy

BASELINES = ("home", "random")
"""home: no action, so the home angles are the motors' targets, or the motors rest. Nothing counters
the weight: a robot with soft motors sags, and may fall. random: uniform between -1 and 1."""


class Baseline(NamedTuple):
    """A `TrainedPolicy` without training."""

    config: Config
    policy: Policy
    iteration: int = 0


def baseline(name: str, robot: str, seed: int) -> Baseline:
    """A policy of `BASELINES` for a robot's preset.

    seed: of random's actions, which are the same in every drive.

    Raises:
      UserError: an unknown name or robot.
    """
    if name not in BASELINES:
        raise unknown("baseline", name, BASELINES)
    config = preset_config(robot)
    actions = len(robot_spec(config).action_scale)
    return Baseline(config, _home(actions) if name == "home" else _random(actions, seed))


def _home(actions: int) -> Policy:
    def step(obs: Any, memory: Any) -> tuple[Any, Any]:
        return np.zeros((len(obs), actions), np.float32), memory

    return Policy(lambda count: (), step)


def _random(actions: int, seed: int) -> Policy:
    # not in the memory, which a fall clears: the robot would repeat its actions
    drawn = np.random.default_rng(seed)

    def start(count: int) -> Any:
        nonlocal drawn
        drawn = np.random.default_rng(seed)
        return ()

    def step(obs: Any, memory: Any) -> tuple[Any, Any]:
        return drawn.uniform(-1.0, 1.0, (len(obs), actions)).astype(np.float32), memory

    return Policy(start, step)
