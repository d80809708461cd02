"""python deploy_mujoco.py NAME.yaml: drive a policy in MuJoCo, as unitree_rl_gym does.
Exit code 0: it did not fall; 1: it fell; 2: bad input."""

import argparse
import os
import sys
import time
from importlib import import_module
from pathlib import Path

import mujoco
import numpy as np
import yaml
from run_policy import open_policy  # lies beside this file

ARRAYS = ("kps", "kds", "torque_limits", "default_angles", "action_scale", "cmd_scale", "cmd_init")


def drive(k: dict, folder: Path, seconds: float, window: bool) -> int:
    """k: the keys of NAME.yaml, which lies in `folder`."""
    kp, kd, limit, home, per_action, cmd_scale, command = (np.array(k[x], float) for x in ARRAYS)
    policy = open_policy(folder / k["policy_path"])
    model = mujoco.MjModel.from_xml_path(str(folder / k["xml_path"]))
    model.opt.timestep = dt = k["simulation_dt"]
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    joints = [model.joint(name) for name in k["joint_names"]]
    q, v = [j.qposadr[0] for j in joints], [j.dofadr[0] for j in joints]
    viewer = import_module("mujoco.viewer").launch_passive(model, data) if window else None
    action, base, moved, began = np.zeros(k["num_actions"]), np.zeros(9), [], time.time()
    for step in range(1, round((seconds or k["simulation_duration"]) / dt) + 1):
        torque = kp * (home + per_action * action - data.qpos[q]) - kd * data.qvel[v]
        data.ctrl[:] = np.clip(torque, -limit, limit)
        mujoco.mj_step(model, data)
        if step % k["control_decimation"]:
            continue
        mujoco.mju_quat2Mat(base, data.qpos[3:7])
        phase = 2 * np.pi * data.time / k["gait_period"]
        obs = [data.qvel[3:6] * k["ang_vel_scale"], -base[6:], command * cmd_scale]
        obs += [(data.qpos[q] - home) * k["dof_pos_scale"], data.qvel[v] * k["dof_vel_scale"]]
        obs += [action, [np.sin(phase), np.cos(phase)]]
        action = policy(np.concatenate(obs).astype(np.float32))
        moved.append([*(data.qvel[:3] @ base.reshape(3, 3))[:2], data.qvel[5]])
        fell = not data.qpos[2] > k["fall_height"]
        if viewer:
            viewer.sync()
            time.sleep(max(0.0, began + data.time - time.time()))
        if fell or (viewer and not viewer.is_running()):
            break
    mean = np.mean(moved[len(moved) // 5 :], axis=0).round(3)  # the start is left out
    print(f"command {command}, mean velocity {mean} (m/s forward, m/s left, rad/s)")
    print("fell after" if fell else "did not fall in", f"{data.time:.1f} s")
    return int(fell)


def main() -> int:
    cli = argparse.ArgumentParser(usage=argparse.SUPPRESS, description=__doc__)
    cli.add_argument("config", type=Path, help="NAME.yaml; paths in it begin in its folder")
    cli.add_argument("--no-viewer", action="store_true", help="no window, as fast as it goes")
    cli.add_argument("--seconds", type=float, help="to drive, s (default: simulation_duration)")
    args = cli.parse_args()
    try:
        screen = sys.platform != "linux" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
        if not screen and not args.no_viewer:
            print("there is no screen: it drives without a window, as with --no-viewer")
        if args.seconds is not None and args.seconds < 0.1:
            raise ValueError(f"--seconds must be at least 0.1, got {args.seconds}")
        keys = yaml.safe_load(args.config.read_text())
        if not isinstance(keys, dict):
            raise ValueError("it holds no keys")
        return drive(keys, args.config.parent, args.seconds, screen and not args.no_viewer)
    except Exception as error:  # whatever a bad file or a missing package causes
        why = f"not found: {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
        print(f"error: {args.config}: {why}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
