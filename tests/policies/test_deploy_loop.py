"""The loop of unitree_rl_gym's MuJoCo script, written from its description in docs/deploy.md, gives
a policy the same observations as our own environment."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
import yaml

from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.evaluation.drive import make_driver

DOCS = Path(__file__).resolve().parents[2] / "docs" / "deploy.md"
PERIOD = 0.8  # s


def keys_of(script: str) -> dict:
    """The keys that docs/deploy.md gives for one of the two scripts."""
    blocks = DOCS.read_text().split("```yaml\n")[1:]
    (text,) = [block.split("```")[0] for block in blocks if block.startswith(f"# {script}\n")]
    return yaml.safe_load(text)


class Deployment:
    """A robot of torque motors, a PD law by hand, and 47 observations put together by hand."""

    def __init__(self, keys: dict, limits) -> None:
        self.model = get_robot("g1_12dof").load(keys["simulation_dt"])
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
        self.model.actuator_biasprm[:] = 0.0
        self.model.actuator_gainprm[:] = 0.0
        self.model.actuator_gainprm[:, 0] = 1.0
        self.data = mujoco.MjData(self.model)
        mujoco.mj_resetDataKeyframe(self.model, self.data, self.model.key("home").id)
        self.limits = np.array(limits)
        self.kp, self.kd, self.home, self.scale, self.command = (
            np.array(keys[name], np.float32)
            for name in ("kps", "kds", "default_angles", "cmd_scale", "cmd_init")
        )
        self.keys, self.steps = keys, 0
        self.action = np.zeros(keys["num_actions"], np.float32)

    def control_step(self) -> np.ndarray:
        """Hold the last action's targets for one control step; the observation [47] after it."""
        data, keys = self.data, self.keys
        target = self.home + keys["action_scale"] * self.action
        for _ in range(keys["control_decimation"]):
            torque = self.kp * (target - data.qpos[7:]) - self.kd * data.qvel[6:]
            data.ctrl[:] = np.clip(torque, -self.limits, self.limits)
            mujoco.mj_step(self.model, data)
            self.steps += 1
        return self.observation()

    def observation(self) -> np.ndarray:
        data, keys = self.data, self.keys
        down = np.zeros(3)
        turned = np.zeros(4)
        mujoco.mju_negQuat(turned, data.qpos[3:7])
        mujoco.mju_rotVecQuat(down, np.array([0.0, 0.0, -1.0]), turned)
        angle = 2 * np.pi * (self.steps * keys["simulation_dt"] % PERIOD / PERIOD)
        parts = [
            data.qvel[3:6] * keys["ang_vel_scale"],
            down,
            self.command * self.scale,
            (data.qpos[7:] - self.home) * keys["dof_pos_scale"],
            data.qvel[6:] * keys["dof_vel_scale"],
            self.action,
            [np.sin(angle), np.cos(angle)],
        ]
        return np.concatenate(parts).astype(np.float32)


@pytest.mark.parametrize("script", ["deploy_mujoco", "deploy_real"])
def test_the_keys_in_the_docs_are_those_of_the_policy(script, walker):
    keys, meta = keys_of(script), walker.meta
    assert (keys["kps"], keys["kds"]) == (meta["kp"], meta["kd"])
    assert keys["default_angles"] == meta["default_pose"]
    assert [keys["action_scale"]] * 12 == meta["action_scale"]
    assert (keys["num_obs"], keys["num_actions"]) == (walker.obs_size, walker.action_size)
    scale = {part["name"]: part["scale"] for part in meta["observation"]}
    assert keys["ang_vel_scale"] == scale["gyro"]
    assert keys["cmd_scale"] == scale["command"]
    assert keys["dof_pos_scale"] == scale["joint_position"]
    assert keys["dof_vel_scale"] == scale["joint_velocity"]
    step = keys.get("control_dt") or keys["simulation_dt"] * keys["control_decimation"]
    assert 1.0 / step == pytest.approx(meta["control_rate"])
    assert meta["gait_period"] == PERIOD


@pytest.mark.slow
def test_by_hand_and_by_our_environment_the_policy_sees_and_does_the_same(walking_run, trained):
    policy, keys = trained, keys_of("deploy_mujoco")
    robot = Deployment(keys, policy.meta["torque_limit"])
    driver = make_driver(walking_run.config, num_envs=1)
    command = np.array([keys["cmd_init"]], np.float32)
    state = driver.reset(0, command)
    task = state.envs.task._replace(phase=jnp.zeros(1))  # both clocks start at 0
    state = state._replace(envs=state.envs._replace(task=task))
    np.testing.assert_allclose(robot.observation()[:45], state.envs.obs.policy[0, :45], atol=1e-6)
    action = np.zeros((1, 12), np.float32)
    observed = []
    for step in range(15):
        state, _ = driver.step(state, action, command)
        seen, expected = robot.control_step(), np.asarray(state.envs.obs.policy[0])
        # ours is float32 between control steps, the script float64: they diverge slowly
        close = 1e-4 if step < 3 else 1e-2
        np.testing.assert_allclose(seen, expected, atol=close, err_msg=f"control step {step}")
        robot.action, action = policy(seen), np.asarray(walking_run.policy(expected[None]))
        np.testing.assert_allclose(robot.action, action[0], atol=close)
        observed.append(seen)
    assert np.ptp(observed, axis=0)[9:45].max() > 0.05, "a robot at rest would agree with anything"


def test_leaning_shows_in_gravity_as_the_docs_have_it(walker):
    robot = Deployment(keys_of("deploy_mujoco"), walker.meta["torque_limit"])
    for axis, entry in (((0.0, 1.0, 0.0), 3), ((-1.0, 0.0, 0.0), 4)):  # forward; to the left
        mujoco.mju_axisAngle2Quat(robot.data.qpos[3:7], np.array(axis), 0.3)
        seen = robot.observation()
        assert seen[entry] == pytest.approx(np.sin(0.3), abs=1e-6)
        assert seen[5] == pytest.approx(-np.cos(0.3), abs=1e-6)
