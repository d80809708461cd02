"""The description of a policy: all that a program on a robot must know to run it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mujoco
import numpy as np

from jaxrl_hw import __version__
from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.checkpointing.provenance import package_versions
from jaxrl_hw.config import validation
from jaxrl_hw.config.factory import shown_model
from jaxrl_hw.config.resolve import robot_spec, task_name
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import RobotSpec
from jaxrl_hw.envs.tasks.joystick import observations
from jaxrl_hw.envs.tasks.joystick.layout import legged_layout
from jaxrl_hw.loggers.jsonl import jsonable
from jaxrl_hw.policies.portable import FORMAT


def portable_config(config: Config) -> Config:
    """The config without the folders and limits of the machine that it ran on."""
    return replace(config, run_dir="", resume="auto", time_limit="", init_from="")


def describe(config: Config, iteration: int, env_steps: int) -> dict[str, Any]:
    """The description that a policy file carries, as JSON has it.

    Always: format, robot, task, algo, activation, memory (its kind, and its size where it has one:
    a history's observations, a recurrent state's width), iteration, env_steps, joint_names (in the
    order of the actions), action_scale, control_rate (Hz), versions, config. For the joystick task
    also
    default_pose (rad; a joint's target is default_pose + action_scale * action), kp (N m/rad), kd
    (N m s/rad), torque_limit (N m, null where there is none), gait_period (s), commands (the
    ranges in training: m/s, m/s, rad/s) and observation: its parts in order, each with size, unit
    and the scale that it is multiplied by.

    Raises:
      UserError: unknown robot, or a model that its task cannot use.
    """
    robot, task = robot_spec(config), task_name(config)
    model = shown_model(config)
    meta = {
        "format": FORMAT,
        "robot": config.robot,
        "task": task,
        "algo": config.algo,
        "activation": config.net.activation,
        "memory": _memory(config.net),
        "iteration": iteration,
        "env_steps": env_steps,
        "joint_names": [_moved_by(model, i) for i in range(model.nu)],
        "action_scale": list(robot.action_scale),
        "control_rate": round(1.0 / robot.control_dt, 6),
    }
    if task == "joystick":
        meta |= _walking(config, robot, model)
    versions = package_versions() | {"jaxrl_hw": __version__}
    meta |= {"versions": versions, "config": validation.to_dict(portable_config(config))}
    return dict(jsonable(meta))


def _moved_by(model: mujoco.MjModel, actuator: int) -> str:
    """The name of the joint that an actuator moves; its own where it moves no single joint."""
    if model.actuator_trntype[actuator] == mujoco.mjtTrn.mjTRN_JOINT:
        return str(model.joint(int(model.actuator_trnid[actuator, 0])).name)
    return str(model.actuator(actuator).name)


def _memory(net: NetConfig) -> dict[str, Any]:
    return {"kind": net.memory} | ({"size": net.memory_size} if net.memory_size else {})


def _walking(config: Config, robot: RobotSpec, model: mujoco.MjModel) -> dict[str, Any]:
    body = legged_layout(model, robot.feet, robot.soft_limit)
    trained = config.joystick
    return {
        "default_pose": _rounded(body.home),
        "kp": _rounded(body.kp),
        "kd": _rounded(body.kd),
        "torque_limit": _rounded(body.torque_limit),
        "gait_period": robot.gait_period,
        "commands": {name: list(getattr(trained, name)) for name in ("vx", "vy", "yaw_rate")},
        "observation": [
            {"name": e.name, "size": e.size, "scale": e.scale, "unit": e.unit}
            for e in observations.entries(len(body.home))
        ],
    }


def _rounded(values: np.ndarray) -> list[float]:
    """float32 values as the shortest decimal numbers that give them."""
    return [float(str(np.float32(x))) for x in values]
