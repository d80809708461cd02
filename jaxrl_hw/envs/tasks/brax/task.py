"""An environment of Brax, with Brax's own physics."""

from __future__ import annotations

import warnings
from typing import Any

import jax.numpy as jnp
import mujoco
from jax import Array

from jaxrl_hw.envs.physics.api import Physics
from jaxrl_hw.envs.tasks.api import Task
from jaxrl_hw.envs.tasks.brax.settings import BraxConfig
from jaxrl_hw.envs.tasks.environments import environment_of, unknown_environment
from jaxrl_hw.envs.tasks.outside import Loaded, world


def make_world(settings: BraxConfig, robot: Any) -> tuple[Task, Physics]:
    """The task and the physics of the environment that a RobotSpec stands for."""
    return world("brax", load(environment_of(robot.name), settings))


def load(name: str, settings: BraxConfig) -> Loaded:
    """The environment of that name.

    Raises:
      UserError: Brax has none of that name.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Brax says of each that it is not developed any more
        from brax import envs

        known = envs._envs  # Brax has no function that lists them
        if name not in known:
            raise unknown_environment("brax", name, known)
        env = envs.get_environment(name, backend=settings.backend)
        system = getattr(env, "sys", None)  # Brax's own test environment, "fast", has none
    steps = settings.episode_steps
    if system is None:
        nothing = jnp.zeros(0)
        model = mujoco.MjSpec().compile()
        return Loaded(name, env, float(env._dt), steps, model, lambda state: (nothing, nothing))
    return Loaded(name, env, float(env.dt), steps, system.mj_model, _pose)


def _pose(state: Any) -> tuple[Array, Array]:
    return state.pipeline_state.q, state.pipeline_state.qd
