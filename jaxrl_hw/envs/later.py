"""The joystick task asks for more as a run goes on: first to walk, then to walk well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.config import JoystickConfig

Names = tuple[str, ...]


def changes(config: JoystickConfig) -> bool:
    """Whether anything does as a run goes on."""
    return config.later.iteration > 0 or config.last.iteration > 0


def in_force(config: JoystickConfig, iteration: Array) -> JoystickConfig:
    """The settings of an iteration int32 [] of a run: those of `config.later` once it is reached,
    and then those of `config.last`.

    What changes is an array [] in place of a number, so that one compiled step does for all of a
    run.
    """
    now = _from(config, config.later, iteration, _TASK, _REWARD)
    return _from(now, config.last, iteration, (*_TASK, *_LAST_TASK), (*_REWARD, *_LAST_REWARD))


def _from(
    config: JoystickConfig, stage: Any, iteration: Array, task: Names, reward: Names
) -> JoystickConfig:
    """The settings with a stage's in place of those of these names, once it has begun."""
    if not stage.iteration:
        return config
    begun = iteration >= stage.iteration

    def now(group: Any, names: Names) -> Any:
        return replace(group, **{name: one(name, getattr(group, name)) for name in names})

    def one(name: str, before: float | Array) -> Array:
        return jnp.where(begun, jnp.float32(getattr(stage, name)), jnp.float32(before))

    return cast(JoystickConfig, replace(now(config, task), reward=now(config.reward, reward)))


_TASK = ("zero_command", "recovery_speed")
_REWARD = ("yaw_rate", "walking_power", "landing", "fall")
_LAST_TASK = ("standing_clock_speed",)
_LAST_REWARD = ("velocity_fine",)
