"""Train legged robots on the hardware at hand: MuJoCo environments, PPO and exact resume in JAX.

Names are loaded on first use; importing this package imports neither jax nor mujoco, so that
memory settings can still be made (`jaxrl_hw.hardware.xla`).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Config": "config",
    "PPOConfig": "config",
    "NetConfig": "config",
    "JoystickConfig": "config",
    "JoystickReward": "config",
    "CartpoleConfig": "config",
    "UserError": "errors",
    "RunError": "errors",
    "preset_config": "presets",
    "Plan": "planning",
    "make_plan": "planning",
    "make_env": "factory",
    "make_algorithm": "factory",
    "make_train_step": "loop",
    "init_train_state": "loop",
    "fit": "fitting",
    "Run": "run",
    "load_run": "run",
    "PortablePolicy": "policies.portable",
    "open_policy": "policies.opening",
    "get_robot": "robots",
    "register_robot": "robots",
    "robot_names": "robots",
    "RobotSpec": "robots",
    "register_task": "envs",
    "task_names": "envs",
    "Task": "envs.api",
    "Start": "envs.api",
    "Outcome": "envs.api",
    "Observation": "types",
    "TrainState": "types",
    "Batch": "types",
    "Algorithm": "types",
    "PhysState": "physics.api",
    "ModelParams": "physics.api",
    "sensor_slices": "physics.api",
    "state_at": "physics.api",
    "make_physics": "physics",
    "compile_model": "physics.model",
    "Env": "rollout",
    "make_vector_env": "rollout",
    "drive": "watch.drive",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
