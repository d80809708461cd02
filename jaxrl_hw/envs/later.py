"""The joystick task asks for more as a run goes on: first to walk, then to walk well."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.config import JoystickConfig


def in_force(config: JoystickConfig, iteration: Array) -> JoystickConfig:
    """The settings of an iteration int32 [] of a run: those of `config.later` once it is reached.

    What changes is an array [] in place of a number, so that one compiled step does for all of a
    run.
    """
    asked, reward = config.later, config.reward
    late = iteration >= asked.iteration

    def one(before: float, after: float) -> Any:
        return jnp.where(late, jnp.float32(after), jnp.float32(before))

    return replace(
        config,
        zero_command=one(config.zero_command, asked.zero_command),
        recovery_speed=one(config.recovery_speed, asked.recovery_speed),
        reward=replace(
            reward,
            yaw_rate=one(reward.yaw_rate, asked.yaw_rate),
            power=one(reward.power, asked.power),
            landing=one(reward.landing, asked.landing),
            alive=one(reward.alive, asked.alive),
        ),
    )
