"""The joystick task asks for more as a run goes on: first to walk, then to walk well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.config import JoystickConfig


def in_force(config: JoystickConfig, iteration: Array) -> JoystickConfig:
    """The settings of an iteration int32 [] of a run: those of `config.later` once it is reached.

    What changes is an array [] in place of a number, so that one compiled step does for all of a
    run.
    """
    first = config.later.iteration
    late = iteration >= first
    saving = iteration >= max(first, config.later.economy_iteration)

    def now(group: Any, names: tuple[str, ...]) -> Any:
        """The group of settings with these as they are now."""
        return replace(group, **{name: one(name, getattr(group, name)) for name in names})

    def one(name: str, before: float) -> Array:
        reached = saving if name in _ECONOMY else late
        return jnp.where(reached, jnp.float32(getattr(config.later, name)), jnp.float32(before))

    return cast(JoystickConfig, replace(now(config, _TASK), reward=now(config.reward, _REWARD)))


_TASK = ("zero_command", "recovery_speed")
_ECONOMY = ("walking_power", "landing")
_REWARD = ("yaw_rate", *_ECONOMY, "fall")
