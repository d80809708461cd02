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


def stage_settings(config: Any) -> tuple[tuple[int, Any], ...]:
    """(env step, the task's settings from there on), from the start through every stage."""
    import dataclasses

    from jaxrl_hw.config.resolve import task_name

    settings: Any = getattr(config, task_name(config), None)
    found = [(0, settings)]
    per_iteration = int(config.num_envs if isinstance(config.num_envs, int) else 256)
    per_iteration *= config.ppo.unroll
    for name in ("later", "last", "finish") if task_name(config) == "joystick" else ():
        stage = getattr(config.joystick, name)
        if not stage.iteration:
            continue
        values = {f.name: getattr(stage, f.name) for f in dataclasses.fields(stage)}
        values.pop("iteration")
        weights = {f.name for f in dataclasses.fields(settings.reward)}
        reward = {k: v for k, v in values.items() if k in weights}
        rest = {k: v for k, v in values.items() if k not in weights}
        changed = dataclasses.replace(settings.reward, **reward)
        settings = dataclasses.replace(settings, reward=changed, **rest)
        found.append((stage.iteration * per_iteration, settings))
    return tuple(found)
