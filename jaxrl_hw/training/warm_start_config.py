"""What a preset becomes where a new run starts from a trained policy, before jax is loaded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.checkpointing.run_dir import is_run_folder
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.tasks.joystick.settings import STRETCHES, JoystickLater
from jaxrl_hw.policies.sources import origin_of


def like_origin(config: Config, source: str) -> Config:
    """As the policy that a new run starts from is: with its networks, and with nothing of the
    preset left to wait for that its training has been through.

    Args:
      config: a preset's, for the same robot.
      source: zoo:NAME, a policy file or a run's folder; empty leaves all as it is.

    Raises:
      UserError: see `policies.opening.origin_of`.
    """
    if not source:
        return config
    origin = origin_of(source)
    same = {name: getattr(origin.net, name) for name in ("policy", "value", "activation")}
    begun: dict[str, Any] = {
        name: _ahead(getattr(config.joystick, name), origin.iteration) for name in STRETCHES
    }
    return replace(
        config,
        net=replace(config.net, **same),
        joystick=replace(config.joystick, **begun),
        ppo=_gently(config.ppo, origin.iteration, value_comes_too=is_run_folder(source)),
    )


def _gently(ppo: PPOConfig, done: int, value_comes_too: bool) -> PPOConfig:
    """PPO for a policy that has trained for so many iterations, not to throw it off: at the rate
    of a fresh network its first iteration has a KL divergence of 3 to 13, at a tenth 0.02."""
    return replace(
        ppo,
        learning_rate=ppo.learning_rate / 10.0,
        anneal=_left(ppo.anneal, done),
        critic_warmup=0 if value_comes_too else _VALUE_FIRST,
    )


_VALUE_FIRST = 120
"""Iterations in which a new value network learns what a trained policy is worth. Of g1_12dof:
after 40 the policy still loses its tracking (0.21 m/s 160 iterations on), after 80 it is at 0.08,
after 120 at 0.07."""


def _ahead(stretch: JoystickLater, done: int) -> JoystickLater:
    """A stretch as who has trained for so many iterations meets it."""
    return replace(stretch, iteration=_left(stretch.iteration, done))


def _left(iteration: int, done: int) -> int:
    """How long until an iteration of the source's training; what is off (0) stays so."""
    return iteration and max(1, iteration - done)
