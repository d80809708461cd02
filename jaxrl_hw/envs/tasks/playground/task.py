"""An environment of MuJoCo Playground, on MJX in JAX."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

from jaxrl_hw.envs.physics.api import Physics
from jaxrl_hw.envs.tasks.api import Task
from jaxrl_hw.envs.tasks.environments import environment_of, unknown_environment
from jaxrl_hw.envs.tasks.outside import Loaded, world
from jaxrl_hw.envs.tasks.playground.settings import PlaygroundConfig
from jaxrl_hw.errors import UserError


def make_world(settings: PlaygroundConfig, robot: Any) -> tuple[Task, Physics]:
    """The task and the physics of the environment that a RobotSpec stands for."""
    return world("playground", load(environment_of(robot.name), settings))


def load(name: str, settings: PlaygroundConfig) -> Loaded:
    """The environment of that name.

    Raises:
      UserError: Playground has none of that name, or its robot's model cannot be downloaded.
    """
    with contextlib.redirect_stdout(sys.stderr):  # it prints while it downloads
        from mujoco_playground import registry
        from mujoco_playground._src import mjx_env

        if name not in registry.ALL_ENVS:
            raise unknown_environment("playground", name, registry.ALL_ENVS)
        try:
            # Playground's own choice is Warp, which sizes its buffers for a number of environments
            env = registry.load(name, config_overrides={"impl": "jax"})
        except (OSError, subprocess.CalledProcessError) as error:
            if mjx_env.MENAGERIE_PATH.exists():
                raise
            raise UserError(
                f"playground:{name} needs MuJoCo Menagerie, which Playground clones from GitHub on "
                f"first use, and that failed ({type(error).__name__}): connect to the network, or "
                f"copy mujoco_menagerie into {mjx_env.EXTERNAL_DEPS_PATH}"
            ) from error
        own = int(registry.get_default_config(name).episode_length)
    return Loaded(
        name,
        env,
        float(env.dt),
        settings.episode_steps or own,
        env.mj_model,
        lambda state: (state.data.qpos, state.data.qvel),
    )
