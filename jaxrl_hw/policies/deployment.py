"""What drives a policy outside this library: a YAML with unitree_rl_gym's keys, the robot's MJCF
with torque motors, and a script for MuJoCo."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import yaml

from jaxrl_hw.envs.robots import RobotSpec
from jaxrl_hw.policies import run_policy
from jaxrl_hw.policies.portable import PortablePolicy

SCRIPT = "deploy_mujoco.py"
_TIMESTEPS = (0.002, 0.001, 0.0005)  # s; the first is unitree_rl_gym's
_ASSETS = ("mesh", "texture", "hfield", "skin")


def is_deployable(policy: PortablePolicy) -> bool:
    """Whether its description says how to drive it: that of the joystick task does."""
    return "observation" in policy.meta


def deployment(policy: PortablePolicy, robot: RobotSpec, policy_path: str) -> dict[str, bytes]:
    """The files by their names: NAME.yaml, NAME.xml, what that refers to, and the script.

    Args:
      policy: one that `is_deployable`.
      robot: the one it drives, as the run's settings make it.
      policy_path: name of the policy's file, beside the YAML.
    """
    xml, assets = motor_mjcf(robot)
    keys = deploy_keys(policy.meta, robot, policy_path)
    return {
        f"{robot.deploy_name or robot.name}.yaml": _yaml(keys).encode(),
        f"{robot.name}.xml": xml.encode(),
        **assets,
        SCRIPT: Path(run_policy.__file__).with_name(SCRIPT).read_bytes(),
    }


def deploy_keys(meta: dict[str, Any], robot: RobotSpec, policy_path: str) -> dict[str, Any]:
    """The keys of unitree_rl_gym's YAML, then those of `SCRIPT` alone; in the units of
    `metadata.describe`. A torque limit is infinite where there is none."""
    scale = {part["name"]: part["scale"] for part in meta["observation"]}
    actions = len(meta["joint_names"])
    timestep = stable_timestep(meta, robot)
    return {
        "policy_path": policy_path,
        "xml_path": f"{robot.name}.xml",
        "simulation_duration": 60.0,
        "simulation_dt": timestep,
        "control_decimation": round(1.0 / meta["control_rate"] / timestep),
        "kps": meta["kp"],
        "kds": meta["kd"],
        "default_angles": meta["default_pose"],
        "ang_vel_scale": scale["gyro"],
        "dof_pos_scale": scale["joint_position"],
        "dof_vel_scale": scale["joint_velocity"],
        "action_scale": _one_or_all(meta["action_scale"]),
        "cmd_scale": scale["command"],
        "num_actions": actions,
        "num_obs": sum(part["size"] for part in meta["observation"]),
        "cmd_init": [min(0.5, meta["commands"]["vx"][1]), 0.0, 0.0],
        "joint_names": meta["joint_names"],
        "torque_limits": [float("inf") if x is None else x for x in meta["torque_limit"]],
        "gait_period": meta["gait_period"],
        "fall_height": robot.fall_height,
        **{f"cmd_{name}_range": limits for name, limits in meta["commands"].items()},
    }


def stable_timestep(meta: dict[str, Any], robot: RobotSpec) -> float:
    """The longest of `_TIMESTEPS` at which kd, held for a step, takes no more than the whole of a
    joint's velocity: kd dt <= inertia, as it is at home, other joints free."""
    model = robot.load()
    joints = [model.joint(name).dofadr[0] for name in meta["joint_names"]]
    rate = float((np.array(meta["kd"]) * model.dof_invweight0[joints]).max())
    return next((dt for dt in _TIMESTEPS if rate * dt <= 1.0), _TIMESTEPS[-1])


def motor_mjcf(robot: RobotSpec) -> tuple[str, dict[str, bytes]]:
    """The robot's MJCF in one file, and the files that it refers to, by their paths from it.

    A motor of 1 N m per unit of ctrl replaces each actuator. Its line is written here, because
    MuJoCo 4 writes attributes that MuJoCo 3 refuses.
    """
    spec = mujoco.MjSpec.from_file(str(robot.mjcf))
    model = spec.compile()
    for key in spec.keys:
        key.ctrl = np.zeros(model.nu)
    root = ET.fromstring(spec.to_xml())
    for default in root.iter("default"):
        for actuator in default.findall("general"):
            default.remove(actuator)
    motors = root.find("actuator")
    assert motors is not None, "a legged robot has actuators"
    motors.clear()
    for i in range(model.nu):
        name = model.joint(model.actuator_trnid[i, 0]).name
        motor = ET.SubElement(motors, "motor", name=model.actuator(i).name, joint=name)
        if model.actuator_forcelimited[i]:
            motor.set("forcerange", "{:.9g} {:.9g}".format(*model.actuator_forcerange[i]))
    assets = _collect(root, spec, robot.name)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode") + "\n", assets


def _collect(root: ET.Element, spec: Any, name: str) -> dict[str, bytes]:
    """The files that a model refers to, by new paths, which replace the old ones in it."""
    folder, found = Path(spec.modelfiledir), {}
    for kind in _ASSETS:
        within = spec.texturedir if kind == "texture" else spec.meshdir
        for i, asset in enumerate(root.iter(kind)):
            if "file" in asset.attrib:
                source = folder / within / asset.attrib["file"]
                asset.set("file", f"{name}_assets/{kind}{i}{source.suffix}")
                found[asset.attrib["file"]] = source.read_bytes()
                asset.attrib.setdefault("name", source.stem)
    for compiler in root.iter("compiler"):
        for attribute in ("meshdir", "texturedir", "assetdir"):
            compiler.attrib.pop(attribute, None)
    return found


def _one_or_all(values: list[float]) -> float | list[float]:
    return values[0] if len(set(values)) == 1 else values


def _yaml(keys: dict[str, Any]) -> str:
    about = (
        "# For deploy_mujoco.py. policy_path: policy.npz (NumPy), policy.onnx (onnxruntime) or\n"
    )
    about += "# policy.pt (torch); unitree_rl_gym's own script takes policy.pt.\n"
    return about + yaml.safe_dump(keys, sort_keys=False, default_flow_style=None, width=100)
