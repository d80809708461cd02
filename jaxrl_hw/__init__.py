"""Train legged robots on the hardware at hand: MuJoCo environments, PPO and exact resume in JAX.

Names are loaded on first use; importing this package imports neither jax nor mujoco, so that
memory settings can still be made (`jaxrl_hw.hardware.xla`).
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "Config": "config.schema",
    "Stage": "config.curriculum",
    "setting": "types",
    "PPOConfig": "algos.ppo_settings",
    "A2CConfig": "algos.a2c_settings",
    "register_algorithm": "algos.registry",
    "AlgorithmEntry": "algos.registry",
    "NetConfig": "algos.networks.settings",
    "JoystickConfig": "envs.tasks.joystick.settings",
    "JoystickReward": "envs.tasks.joystick.settings",
    "CartpoleConfig": "envs.tasks.cartpole.settings",
    "UserError": "errors",
    "RunError": "errors",
    "preset_config": "config.presets",
    "Plan": "planning.plan",
    "make_plan": "planning.planner",
    "make_env": "config.factory",
    "make_algorithm": "config.factory",
    "make_train_step": "training.train_step",
    "init_train_state": "training.train_step",
    "fit": "training.trainer",
    "fit_seeds": "training.seeds",
    "Run": "training.run",
    "load_run": "training.run",
    "PortablePolicy": "policies.portable",
    "open_policy": "policies.sources",
    "get_robot": "envs.robots",
    "register_robot": "envs.robots",
    "robot_names": "envs.robots",
    "RobotSpec": "envs.robots",
    "register_task": "envs.tasks",
    "task_names": "envs.tasks",
    "Task": "envs.tasks.api",
    "Start": "envs.tasks.api",
    "Outcome": "envs.tasks.api",
    "Observation": "types",
    "TrainState": "types",
    "Batch": "types",
    "Algorithm": "types",
    "Learner": "types",
    "Needs": "types",
    "PolicyParts": "types",
    "PhysState": "envs.physics.api",
    "ModelParams": "envs.physics.api",
    "sensor_slices": "envs.physics.api",
    "state_at": "envs.physics.api",
    "make_physics": "envs.physics",
    "compile_model": "envs.physics.model",
    "Env": "envs.vector",
    "make_vector_env": "envs.vector",
    "drive": "evaluation.drive",
}

_RETIRED = {
    "archive": "checkpointing",
    "checkup": "cli.doctor",
    "factory": "config.factory",
    "fitting": "training.trainer",
    "flags": "cli.flags",
    "joystick_config": "envs.tasks.joystick.settings",
    "loop": "training.train_step",
    "nets": "algos.networks",
    "physics": "envs.physics",
    "presets": "config.presets",
    "robots": "envs.robots",
    "rollout": "envs.vector",
    "run": "training.run",
    "sessions": "checkpointing",
    "telemetry": "loggers",
    "watch": "evaluation",
    "zoo": "policies.zoo",
}
"""Names that earlier versions had, and their successors. CHANGELOG.md lists all modules."""

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name in _RETIRED:
        from jaxrl_hw.errors import UserError

        # not an AttributeError: `from jaxrl_hw import NAME` would drop its message
        raise UserError(f"{__name__}.{name} is now {__name__}.{_RETIRED[name]}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(_HOMES))
