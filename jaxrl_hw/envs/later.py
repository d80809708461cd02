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
    late = iteration >= config.later.iteration

    def now(group: Any, names: tuple[str, ...]) -> Any:
        """The group of settings with these as they are now."""
        return replace(group, **{name: one(name, getattr(group, name)) for name in names})

    def one(name: str, before: float) -> Array:
        return jnp.where(late, jnp.float32(getattr(config.later, name)), jnp.float32(before))

    return cast(JoystickConfig, replace(now(config, _TASK), reward=now(config.reward, _REWARD)))


_TASK = ("zero_command", "recovery_speed")
_REWARD = ("yaw_rate", "walking_power", "landing", "fall")
