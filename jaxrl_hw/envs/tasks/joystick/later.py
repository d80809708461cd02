"""The joystick task asks for more as a run goes on: first to walk, then to walk well."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, cast

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.envs.tasks.joystick.settings import STRETCHES, JoystickConfig, JoystickReward


def changes(config: JoystickConfig) -> bool:
    """Whether anything does as a run goes on."""
    return any(getattr(config, stretch).iteration > 0 for stretch in STRETCHES)


def in_force(config: JoystickConfig, iteration: Array) -> JoystickConfig:
    """The settings of an iteration int32 [] of a run: those of the stretches that have begun in
    place of those of the same names, one stretch after the other.

    What changes is an array [] in place of a number, so that one compiled step does for all of a
    run.
    """
    now = config
    for stretch in STRETCHES:
        now = _from(now, getattr(config, stretch), iteration)
    return now


def _from(config: JoystickConfig, stretch: Any, iteration: Array) -> JoystickConfig:
    """The settings with a stretch's in place of those of the same names, once it has begun."""
    if not stretch.iteration:
        return config
    begun = iteration >= stretch.iteration
    names = [field.name for field in fields(stretch) if field.name != "iteration"]
    weights = [name for name in names if name in _WEIGHTS]
    rest = [name for name in names if name not in _WEIGHTS]

    def now(group: Any, names: list[str]) -> Any:
        return replace(group, **{name: one(name, getattr(group, name)) for name in names})

    def one(name: str, before: float | Array) -> Array:
        return jnp.where(begun, jnp.float32(getattr(stretch, name)), jnp.float32(before))

    reward = now(config.reward, weights)
    return cast(JoystickConfig, replace(now(config, rest), reward=reward))


_WEIGHTS = {field.name for field in fields(JoystickReward)}
