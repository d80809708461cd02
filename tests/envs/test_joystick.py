"""The joystick task: the deployment contract, commands, pushes, randomization, symmetry."""

from __future__ import annotations

import functools
import math
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw.config.factory import make_env, make_task
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.physics.api import PhysState, nominal_params
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks.api import Outcome, Task
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.envs.tasks.joystick.state import Ahead, JoystickState

LEGGED = ("g1_12dof", "g1", "go1", "go2", "h1", "t1")
CALM = JoystickConfig(noise=0.0, randomize=False, push_speed=0.0)
Q0 = np.array([-0.1, 0, 0, 0.3, -0.2, 0] * 2)
"""unitree_rl_gym's home pose of the legs, left first: hip pitch, roll, yaw, knee, ankle pitch,
roll; rad."""


class Stage:
    """A task without its engine: outcomes of states made by hand, sensors by MuJoCo."""

    def __init__(self, robot: str, config: JoystickConfig) -> None:
        self.task: Task
        self.task, physics = make_task(Config(robot=robot, physics="native", joystick=config))
        self.model, self.robot, self.config = physics.model, get_robot(robot), config
        self.params = nominal_params(self.model, self.task.fields)
        # the task's parameters are arguments: stages of one robot then have one program
        outcome, many = jax.jit(self.task.outcome), jax.vmap(self.task.outcome, (*[None] * 6, 0))
        reset = jax.jit(jax.vmap(self.task.reset, (None, 0)))
        self.outcome = functools.partial(outcome, self.task.params)
        self.outcomes = functools.partial(jax.jit(many), self.task.params)
        self.reset = functools.partial(reset, self.task.params)

    def sensors(self, qpos: np.ndarray, qvel: np.ndarray) -> np.ndarray:
        data = mujoco.MjData(self.model)
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(self.model, data)
        return np.asarray(data.sensordata, np.float32)

    def see(self, qpos: Any, qvel: Any, action: Any, time: float = 0.0, **memory: Any) -> Outcome:
        """What the task makes of a state that a control step has led to."""
        qpos, qvel = np.asarray(qpos, np.float64), np.asarray(qvel, np.float64)
        state = JoystickState(
            command=jnp.zeros(3),
            command_left=jnp.int32(1000),
            push_left=jnp.int32(1000),
            phase=jnp.float32(0.0),
            action=jnp.zeros(self.task.action_size),
        )._replace(**memory)
        physics = PhysState(
            jnp.asarray(qpos, jnp.float32),
            jnp.asarray(qvel, jnp.float32),
            jnp.zeros(self.model.na),
            jnp.zeros(self.model.nv),
            jnp.float32(time),
        )
        seen = jnp.asarray(self.sensors(qpos, qvel))
        args = state, self.params, physics, seen, jnp.asarray(action, jnp.float32)
        return self.outcome(*args, jax.random.key(0))


@functools.cache
def stage(robot: str = "g1_12dof", config: JoystickConfig = CALM) -> Stage:
    return Stage(robot, config)


def some_state(at: Stage, seed: int = 0) -> dict[str, np.ndarray]:
    """A tilted, moving robot, its numbers from NumPy."""
    rng = np.random.default_rng(seed)
    home = np.array(at.model.key("home").qpos)
    turn = rng.standard_normal(3) * 0.25
    quat = np.zeros(4)
    mujoco.mju_axisAngle2Quat(quat, turn / np.linalg.norm(turn), np.linalg.norm(turn))
    qpos = home + 0.1 * rng.standard_normal(len(home))
    qpos[3:7] = quat
    return {
        "qpos": qpos,
        "qvel": rng.standard_normal(at.model.nv),
        "action": rng.standard_normal(at.task.action_size),
    }


def rotation(quat: np.ndarray) -> np.ndarray:
    """Body-to-world matrix of a quaternion wxyz, by MuJoCo."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quat)
    return matrix.reshape(3, 3)


def in_world(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A horizontal vector [2] of the heading's frame (base's forward axis on the floor)."""
    c, s = rotation(quat)[:2, 0] / np.linalg.norm(rotation(quat)[:2, 0])
    return np.array([[c, -s], [s, c]]) @ vector


def test_the_47_observations_are_those_of_the_deployment_contract() -> None:
    at = stage()
    state = some_state(at)
    command = np.array([0.7, -0.3, 0.9])
    out = at.see(**state, command=jnp.asarray(command, jnp.float32), phase=jnp.float32(0.2))
    obs = np.asarray(out.obs.policy)
    assert obs.shape == (47,)
    qpos, qvel = state["qpos"], state["qvel"]
    gravity = rotation(qpos[3:7]).T @ np.array([0.0, 0.0, -1.0])
    # a control step of 0.02 s has passed since phase 0.2 of a cycle of 0.8 s
    angle = 2 * math.pi * (0.2 + 0.02 / 0.8)
    parts = {
        "gyro": (0, 3, qvel[3:6] * 0.25),
        "gravity": (3, 6, gravity),
        "command": (6, 9, command * [2.0, 2.0, 0.25]),
        "joints": (9, 21, qpos[7:] - Q0),
        "joint velocities": (21, 33, qvel[6:] * 0.05),
        "last action": (33, 45, state["action"]),
        "phase": (45, 47, [math.sin(angle), math.cos(angle)]),
    }
    for name, (start, end, wanted) in parts.items():
        np.testing.assert_allclose(obs[start:end], wanted, atol=2e-6, err_msg=name)  # float32


def test_the_gyro_of_the_contract_is_what_the_imu_measures() -> None:
    at = stage()
    state = some_state(at)
    adr = at.model.sensor("gyro").adr[0]
    measured = at.sensors(state["qpos"], state["qvel"])[adr : adr + 3]
    np.testing.assert_allclose(at.see(**state).obs.policy[:3], 0.25 * measured, atol=2e-6)


def test_targets_are_the_home_pose_and_a_quarter_of_the_action() -> None:
    at = stage()
    action = np.random.default_rng(0).standard_normal(12)
    ctrl = at.task.control(at.task.params, None, jnp.asarray(action, jnp.float32))
    np.testing.assert_allclose(ctrl, Q0 + 0.25 * action, atol=1e-6)
    wanted = [
        f"{side}_{joint}_joint"
        for side in ("left", "right")
        for joint in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
    ]
    joints = [at.model.joint(at.model.actuator(i).trnid[0]).name for i in range(at.model.nu)]
    assert joints == wanted


def test_a_fresh_episode_observes_itself() -> None:
    at = stage()
    start = jax.tree.map(lambda leaf: np.asarray(leaf[0]), at.reset(jax.random.split(KEY, 4)))
    angle = 2 * math.pi * start.task.phase
    wanted = np.zeros(47)
    wanted[5] = -1.0
    wanted[6:9] = start.task.command * [2.0, 2.0, 0.25]
    wanted[45:] = math.sin(angle), math.cos(angle)
    np.testing.assert_allclose(start.obs.policy, wanted, atol=2e-6)


KEY = jax.random.key(3)


def test_the_critic_sees_the_policys_entries_and_what_only_a_simulator_knows() -> None:
    at = stage()
    state = some_state(at)
    obs = at.see(**state).obs
    np.testing.assert_array_equal(obs.critic[:47], obs.policy)
    qpos, qvel = state["qpos"], state["qvel"]
    velocity = rotation(qpos[3:7]).T @ qvel[:3]
    seen = at.sensors(qpos, qvel)
    place = {n: at.model.sensor(n).adr[0] for n in ("left_foot_pos", "right_foot_pos")}
    rest = at.sensors(at.model.key("home").qpos, np.zeros(at.model.nv))
    heights = [seen[adr + 2] - rest[adr + 2] for adr in place.values()]
    force = [seen[at.model.sensor(f"{side}_foot_force").adr[0]] for side in ("left", "right")]
    wanted = [
        *(2.0 * velocity),
        5.0 * (qpos[2] - at.robot.base_height),
        *(10.0 * np.array(heights)),
        *(np.array(force) > 1.0),
        0.8,  # the floor's friction in the MJCF
    ]
    np.testing.assert_allclose(obs.critic[47:], wanted, atol=1e-5)


def test_the_phase_runs_through_in_the_gait_period_of_the_settings() -> None:
    at = stage(config=replace(CALM, gait_period=0.5))
    home = at.model.key("home").qpos
    out = at.see(home, np.zeros(at.model.nv), np.zeros(12), phase=jnp.float32(0.2))
    assert float(out.task.phase) == pytest.approx(0.2 + 0.02 / 0.5, abs=1e-6)
    np.testing.assert_allclose(out.obs.policy[45], math.sin(2 * math.pi * 0.24), atol=1e-5)


@pytest.mark.slow
def test_noise_is_bounded_and_spares_what_is_known_exactly() -> None:
    noisy, calm = stage(config=replace(CALM, noise=1.0)), stage()
    # what unitree_rl_gym adds: 0.2 rad/s, 0.05, 0.01 rad, 1.5 rad/s, each times its scale
    bound = np.concatenate(
        [[0.05] * 3, [0.05] * 3, [0] * 3, [0.01] * 12, [0.075] * 12, [0] * 12, [0] * 2]
    )
    keys = jax.random.split(jax.random.key(0), 256)
    clean, dirty = calm.reset(keys).obs, noisy.reset(keys).obs
    error = np.abs(np.asarray(dirty.policy - clean.policy)).max(axis=0)
    assert np.all(error <= bound + 1e-6)
    assert np.all(error[bound > 0] > 0.9 * bound[bound > 0])
    np.testing.assert_array_equal(error[bound == 0], 0)
    np.testing.assert_array_equal(dirty.critic, clean.critic)


def many_outcomes(at: Stage, count: int, yaw: float = 0.0, **memory: Any) -> Outcome:
    """Outcomes of the standing robot, turned by yaw, with as many keys."""
    home = at.model.key("home").qpos.copy()
    home[3:7] = math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)
    state = JoystickState(
        jnp.zeros(3), jnp.int32(1000), jnp.int32(1000), jnp.float32(0), jnp.zeros(12)
    )._replace(**memory)
    physics = PhysState(
        jnp.asarray(home, jnp.float32), *(jnp.zeros(n) for n in (18, 0, 18)), jnp.float32(0)
    )
    seen = jnp.asarray(at.sensors(home, np.zeros(18)))
    keys = jax.random.split(jax.random.key(5), count)
    return at.outcomes(state, at.params, physics, seen, jnp.zeros(12), keys)


def test_commands_are_drawn_in_their_ranges_and_some_say_stand_still() -> None:
    config = replace(CALM, vx=(-0.5, 1.0), vy=(0.1, 0.2), yaw_rate=(-2.0, -1.0), zero_command=0.3)
    count = 4096
    task = many_outcomes(stage(config=config), count, command_left=jnp.int32(1)).task
    command = np.asarray(task.command)
    still = (command == 0).all(axis=1)
    # 4 standard errors of a share of 0.3 among 4,096
    assert abs(still.mean() - 0.3) < 4 * math.sqrt(0.3 * 0.7 / count)
    low, high = np.array([-0.5, 0.1, -2.0]), np.array([1.0, 0.2, -1.0])
    moving = command[~still]
    assert np.all((moving >= low - 1e-6) & (moving <= high + 1e-6))
    np.testing.assert_allclose(moving.min(0), low, atol=0.01 * (high - low).max())
    np.testing.assert_allclose(moving.max(0), high, atol=0.01 * (high - low).max())
    left = np.asarray(task.command_left)
    assert left.min() >= 4.0 / 0.02
    assert left.max() <= 10.0 / 0.02
    assert left.max() - left.min() > 250


@pytest.mark.slow
def test_no_command_is_drawn_between_standing_and_walking() -> None:
    """A robot that is to be told slower speeds alone still gets them."""
    for top, slowest in [(1.0, 0.2), (0.1, 0.2 * 0.1 * math.sqrt(3))]:
        ranges = dict.fromkeys(("vx", "vy", "yaw_rate"), (-top, top))
        config = replace(CALM, zero_command=0.0, **ranges)
        task = many_outcomes(stage(config=config), 4096, command_left=jnp.int32(1)).task
        speed = np.linalg.norm(np.asarray(task.command), axis=1)
        assert np.any(speed == 0.0), "what is too slow is to stand still"
        assert slowest <= speed[speed > 0].min() < 1.5 * slowest


def test_a_command_stays_until_its_time_has_come() -> None:
    command = jnp.array([0.3, 0.1, -0.2])
    memory = {"command": command, "command_left": jnp.int32(2)}
    task = many_outcomes(stage(), 64, **memory).task
    np.testing.assert_array_equal(task.command, jnp.tile(command, (64, 1)))
    np.testing.assert_array_equal(task.command_left, 1)


@pytest.mark.slow
def test_pushes_change_the_horizontal_velocity_by_no_more_than_their_speed() -> None:
    at = stage(config=replace(CALM, push_speed=0.8))
    pushed = np.asarray(many_outcomes(at, 1024, push_left=jnp.int32(1)).physics.qvel)
    speed = np.linalg.norm(pushed[:, :2], axis=1)
    assert 0.7 < speed.max() <= 0.8 + 1e-6
    np.testing.assert_array_equal(pushed[:, 2:], 0)
    assert np.abs(pushed[:, :2].mean(0)).max() < 0.1  # in all directions
    assert 0.45 < (speed < 0.4).mean() < 0.55  # small ones as often as large ones
    spared = many_outcomes(at, 1024).physics.qvel
    np.testing.assert_array_equal(spared, 0)


@pytest.mark.slow
@pytest.mark.parametrize("sideways", [0.0, 0.6])
def test_a_share_of_the_pushes_comes_from_the_robot_s_sides(sideways: float) -> None:
    at = stage(config=replace(CALM, push_speed=1.0, push_sideways=sideways))
    pushed = many_outcomes(at, 4096, yaw=1.0, push_left=jnp.int32(1)).physics.qvel
    pushed = np.asarray(pushed)[:, :2]
    angle = np.arctan2(pushed[:, 1], pushed[:, 0]) - 1.0
    from_side = np.abs(np.sin(angle)) > math.sin(math.pi / 3)
    assert from_side.mean() == pytest.approx(sideways + (1 - sideways) / 3, abs=0.03)
    assert (np.sin(angle[from_side]) > 0).mean() == pytest.approx(0.5, abs=0.05)
    assert np.linalg.norm(pushed, axis=1).mean() == pytest.approx(0.5, abs=0.03)


def test_no_push_speed_means_no_pushes() -> None:
    np.testing.assert_array_equal(
        many_outcomes(stage(), 64, push_left=jnp.int32(1)).physics.qvel, 0
    )


@pytest.mark.slow
def test_randomized_values_stay_in_their_ranges_and_fill_them() -> None:
    at = stage(config=JoystickConfig())
    model, c = at.model, at.config
    start = at.reset(jax.random.split(jax.random.key(0), 1024))
    p = jax.tree.map(np.asarray, start.params)
    torso, floor = model.body("pelvis").id, model.geom("floor").id

    def fills(values: np.ndarray, low: float, high: float) -> None:
        assert values.min() >= low - 1e-5
        assert values.max() <= high + 1e-5
        assert values.max() - values.min() > 0.95 * (high - low)

    fills(p["geom_friction"][:, floor, 0], *c.friction)
    np.testing.assert_array_equal(p["geom_friction"][:, floor, 1], np.float32(0.005))
    links = [i for i in range(1, model.nbody) if i != torso]
    fills(p["body_mass"][:, links] / model.body_mass[links], *c.link_mass)
    ratio = p["body_inertia"][:, links] / model.body_inertia[links]
    mass_ratio = p["body_mass"][:, links] / model.body_mass[links]
    np.testing.assert_allclose(ratio, np.repeat(mass_ratio[:, :, None], 3, 2), rtol=1e-5)
    extra = p["body_mass"][:, torso] - model.body_mass[torso]
    tenth = 0.1 * model.body_mass[torso]
    assert extra.min() >= c.torso_mass[0] - tenth
    assert extra.max() <= c.torso_mass[1] + tenth
    assert extra.max() - extra.min() > 4.0  # kg
    offset = p["body_ipos"][:, torso] - model.body_ipos[torso]
    fills(offset, -c.torso_offset, c.torso_offset)
    np.testing.assert_array_equal(p["body_ipos"][0, links], np.float32(model.body_ipos[links]))
    fills(p["dof_frictionloss"][:, 6:] / model.dof_frictionloss[6:], *c.joint_friction)
    fills(p["dof_damping"][:, 6:] / model.dof_damping[6:], *c.joint_damping)
    fills(p["dof_armature"][:, 6:] / model.dof_armature[6:], *c.armature)
    gain, bias = p["actuator_gainprm"], p["actuator_biasprm"]
    fills(gain[:, :, 0] / model.actuator_gainprm[:, 0], *c.kp)
    np.testing.assert_array_equal(bias[:, :, 1], -gain[:, :, 0])
    fills(bias[:, :, 2] / model.actuator_biasprm[:, 2], *c.kd)
    fills(p["actuator_forcerange"] / model.actuator_forcerange, *c.torque_limit)
    own = jax.tree.map(np.asarray, start.task.own)
    fills(own["joint_offset"], -c.joint_offset, c.joint_offset)
    fills(own["gyro_bias"], -c.gyro_bias, c.gyro_bias)
    fills(own["action_delay"] * model.opt.timestep, 0.0, c.action_delay[1])
    fills(own["observation_delay"] * at.robot.control_dt, 0.0, c.observation_delay[1])
    np.testing.assert_array_equal(p["dof_frictionloss"][:, :6], 0)  # the free joint takes none
    # MuJoCo's own sums of the masses that hang on each body
    copy = at.model.__copy__()
    copy.body_mass[:] = p["body_mass"][7]
    mujoco.mj_setConst(copy, mujoco.MjData(copy))
    np.testing.assert_allclose(p["body_subtreemass"][7], copy.body_subtreemass, rtol=1e-5)


def test_starts_differ_within_their_ranges() -> None:
    at = stage(config=JoystickConfig())
    start = jax.tree.map(np.asarray, at.reset(jax.random.split(jax.random.key(0), 1024)))
    qpos, qvel = start.physics.qpos, start.physics.qvel
    assert np.abs(qpos[:, 7:] - Q0).max() <= 0.1 + 1e-6
    assert np.abs(qpos[:, 7:] - Q0).max() > 0.095
    assert 0.29 < np.abs(qvel[:, :6]).max() <= 0.3 + 1e-6
    np.testing.assert_array_equal(qvel[:, 6:], 0)
    np.testing.assert_allclose(np.linalg.norm(qpos[:, 3:7], axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(qpos[:, 4:6], 0)  # upright
    yaw = 2 * np.arctan2(qpos[:, 6], qpos[:, 3])
    assert yaw.min() < -3.0
    assert yaw.max() > 3.0
    assert start.task.phase.min() < 0.01
    assert start.task.phase.max() > 0.99


def test_without_randomization_all_start_alike_and_with_the_nominal_model() -> None:
    at = stage()
    start = at.reset(jax.random.split(jax.random.key(0), 8))
    np.testing.assert_allclose(start.physics.qpos, np.tile(at.model.key("home").qpos, (8, 1)))
    np.testing.assert_array_equal(start.physics.qvel, 0)
    for name, value in start.params.items():
        wanted = np.asarray(getattr(at.model, name), np.float32)
        np.testing.assert_array_equal(value, np.broadcast_to(wanted, value.shape))


@pytest.mark.parametrize(("height", "tilt", "falls"), [
    (0.78, 0.0, False), (0.46, 0.0, False), (0.44, 0.0, True),
    (0.78, 0.95, False), (0.78, 1.05, True), (0.78, -1.05, True), (0.78, 3.1, True),
])  # fmt: skip
def test_a_low_or_tilted_base_has_fallen(height: float, tilt: float, falls: bool) -> None:
    at = stage()
    qpos = np.array(at.model.key("home").qpos)
    qpos[2] = height
    qpos[3:7] = [math.cos(tilt / 2), 0.6 * math.sin(tilt / 2), 0.8 * math.sin(tilt / 2), 0.0]
    out = at.see(qpos, np.zeros(18), np.zeros(12))
    assert bool(out.terminated) is falls
    assert float(out.diagnostics["falls_per_min"]) == 3000.0 * falls
    assert (float(out.rewards["fall"]) < 0) is falls


def test_the_velocity_that_is_rewarded_is_the_commanded_one_in_the_base_frame() -> None:
    at = stage()
    qpos = np.array(at.model.key("home").qpos)
    qpos[3:7] = math.cos(0.5), 0, 0, math.sin(0.5)  # turned by 1 rad
    qvel = np.zeros(18)
    qvel[:2] = 0.6 * math.cos(1.0), 0.6 * math.sin(1.0)
    qvel[5] = 0.4
    out = at.see(qpos, qvel, np.zeros(12), command=jnp.array([0.6, 0.0, 0.4]))
    weights = at.config.reward
    assert float(out.rewards["velocity"]) == pytest.approx(weights.velocity * 0.02, rel=1e-5)
    assert float(out.rewards["yaw_rate"]) == pytest.approx(weights.yaw_rate * 0.02, rel=1e-5)
    assert float(out.diagnostics["tracking/velocity_error"]) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("speed", "time", "steps"), [(0.3, 5.0, False), (0.5, 5.0, True), (0.5, 1.0, False)]
)
def test_a_standing_robot_that_a_push_has_set_off_is_paid_for_stepping(
    speed: float, time: float, steps: bool
) -> None:
    at = stage(config=replace(CALM, recovery_speed=0.4, recovery_after_s=2.0))
    qpos = np.array(at.model.key("home").qpos)
    qpos[7] += 0.2  # a joint off home costs who is to stand
    qvel = np.zeros(at.model.nv)
    qvel[1] = -speed
    swinging = jnp.float32(0.775)  # the left foot is to be up, if any
    out = at.see(qpos, qvel, np.zeros(12), time, phase=swinging)
    assert (float(out.rewards["stand_still"]) == 0.0) == steps
    never = stage().see(qpos, qvel, np.zeros(12), time, phase=swinging)
    less = float(out.rewards["foot_height"]) < float(never.rewards["foot_height"])
    assert less == steps, "both feet are down"


def test_the_critic_sees_the_push_and_the_command_that_come() -> None:
    config = replace(CALM, foresight=True, push_speed=1.0)
    at = stage(config=config)
    state = some_state(at)
    push, told, coming = np.array([0.3, -0.9]), np.array([0.5, 0, 0]), np.array([-0.5, 0.2, 0.8])
    known = {
        "command": jnp.asarray(told, jnp.float32),
        "ahead": Ahead(jnp.asarray(coming, jnp.float32), jnp.asarray(push, jnp.float32)),
    }
    waits = {"push_left": jnp.int32(11), "command_left": jnp.int32(26)}
    out = at.see(**state, **known, **waits)
    # a control step of 0.02 s has passed: the push is 0.2 s away, the command 0.5 s
    near_push, near_command = math.exp(-0.4), math.exp(-1.0)
    kick = in_world(state["qpos"][3:7], push)
    seen = rotation(state["qpos"][3:7]).T @ np.append(kick, 0.0)
    change = (coming - told) * [2.0, 2.0, 1.0]
    wanted = [near_push, *(near_push * seen[:2]), near_command, *(near_command * change)]
    np.testing.assert_allclose(out.obs.critic[47:54], wanted, atol=2e-6)  # float32
    np.testing.assert_array_equal(
        out.obs.policy, stage().see(**state, command=known["command"]).obs.policy
    )
    np.testing.assert_array_equal(out.physics.qvel, np.asarray(state["qvel"], np.float32))

    due = at.see(**state, **known, push_left=jnp.int32(1), command_left=jnp.int32(1))
    changed = np.asarray(due.physics.qvel) - np.asarray(state["qvel"], np.float32)
    np.testing.assert_allclose(changed[:2], kick, atol=1e-6)
    np.testing.assert_allclose(due.task.command, coming, atol=1e-6)
    assert np.any(np.asarray(due.task.ahead.push) != push.astype(np.float32)), "drawn anew"


def test_a_robot_is_pushed_and_told_as_hard_and_as_often_with_foresight() -> None:
    asked = replace(CALM, push_speed=1.0, push_interval_s=0.4, resample_s=(0.2, 0.4))
    means = []
    for foresight in (False, True):
        at = stage(config=replace(asked, foresight=foresight))
        start = at.reset(jax.random.split(KEY, 2048))
        one = functools.partial(at.task.outcome, at.task.params)
        due = start.task._replace(push_left=jnp.ones(2048, jnp.int32), command_left=jnp.ones(2048))
        seen = jnp.zeros((2048, at.model.nsensordata))
        action = jnp.zeros((2048, 12))
        keys = jax.random.split(jax.random.fold_in(KEY, 1), 2048)
        out = jax.jit(jax.vmap(one))(due, start.params, start.physics, seen, action, keys)
        push = np.linalg.norm(out.physics.qvel[:, :2] - start.physics.qvel[:, :2], axis=-1)
        told = np.asarray(out.task.command)
        means.append([push.mean(), push.max(), np.abs(told).mean(), (told == 0).all(axis=1).mean()])
    np.testing.assert_allclose(means[0], means[1], atol=0.03)
    assert means[1][0] == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(("pitch_rate", "steps"), [(0.2, False), (0.8, True), (-0.8, True)])
def test_a_standing_robot_that_sees_all_of_the_clock_is_paid_for_stepping(
    pitch_rate: float, steps: bool
) -> None:
    """It tips over its feet, 0.78 m under the base, which stays where it is."""
    at = stage(config=replace(CALM, standing_phase=0.25, standing_phase_speed=0.4))
    qpos = np.array(at.model.key("home").qpos)
    qpos[7] += 0.2
    qvel = np.zeros(at.model.nv)
    qvel[4] = pitch_rate
    out = at.see(qpos, qvel, np.zeros(12))
    assert (float(out.rewards["stand_still"]) == 0.0) == steps
    mask = at.task.phase_mask(at.task.params)
    whole = np.asarray(out.obs.policy)[-2:]
    seen = np.asarray(mask(out.obs.policy))[-2:]
    np.testing.assert_allclose(seen, whole if steps else 0.25 * whole, rtol=1e-6)


def test_power_is_torque_times_joint_velocity() -> None:
    at = stage()
    state = some_state(at)
    data = mujoco.MjData(at.model)
    data.qpos[:], data.qvel[:] = state["qpos"], state["qvel"]
    data.ctrl[:] = Q0 + 0.25 * state["action"]
    mujoco.mj_forward(at.model, data)
    wanted = np.abs(data.actuator_force * data.qvel[6:]).sum()
    assert float(at.see(**state).diagnostics["power"]) == pytest.approx(wanted, rel=1e-4)


def mirrored(at: Stage, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The state's reflection through the world's xz plane, by the robot's own table of joints."""
    mirror = at.robot.mirror
    perm, sign = np.array(mirror.joint_perm), np.array(mirror.joint_sign)
    qpos, qvel = state["qpos"].copy(), state["qvel"].copy()
    qpos[:7] *= [1, -1, 1, 1, -1, 1, -1]  # y of the position; x and z of the rotation axis
    qvel[:6] *= [1, -1, 1, -1, 1, -1]  # a velocity, then a rotation vector
    qpos[7:], qvel[6:] = sign * qpos[7:][perm], sign * qvel[6:][perm]
    return {"qpos": qpos, "qvel": qvel, "action": sign * state["action"][perm]}


@pytest.mark.slow
@pytest.mark.parametrize("robot", LEGGED)
def test_a_mirrored_robot_sees_the_mirrored_observation_and_earns_the_same(robot: str) -> None:
    at = stage(robot, replace(CALM, foresight=True))
    symmetry = at.task.symmetry
    assert symmetry is not None
    mirror_push, mirror_command = jnp.array([1.0, -1.0]), jnp.array([1.0, -1.0, -1.0])
    coming, push = jnp.array([-0.2, 0.1, 0.9]), jnp.array([0.8, -0.5])
    for seed in range(3):
        state = some_state(at, seed)
        if seed == 2:  # one with its feet on the floor
            state["qpos"][:7] = at.model.key("home").qpos[:7] - [0, 0, 0.02, 0, 0, 0, 0]
        command, phase = jnp.array([0.4, 0.3, -0.7]), 0.3
        soon = {"push_left": jnp.int32(9), "command_left": jnp.int32(5)}
        ahead = Ahead(coming, push)
        there = at.see(**state, command=command, phase=jnp.float32(phase), ahead=ahead, **soon)
        here = at.see(
            **mirrored(at, state),
            command=command * mirror_command,
            phase=jnp.float32(phase + 0.5),
            ahead=Ahead(coming * mirror_command, push * mirror_push),
            **soon,
        )
        # The feet of the reflected state are where the reflection puts them to 1e-6 m (x 10).
        np.testing.assert_allclose(
            symmetry.observation(there.obs).policy, here.obs.policy, atol=1e-5
        )
        np.testing.assert_allclose(
            symmetry.observation(there.obs).critic, here.obs.critic, atol=1e-4
        )
        assert set(there.rewards) == set(here.rewards)
        for name, value in there.rewards.items():
            assert float(value) == pytest.approx(float(here.rewards[name]), rel=1e-3, abs=1e-5), (
                name
            )


@pytest.mark.parametrize("robot", LEGGED)
def test_a_mirrored_action_gives_the_mirrored_targets(robot: str) -> None:
    at = stage(robot)
    mirror = at.robot.mirror
    perm, sign = np.array(mirror.joint_perm), np.array(mirror.joint_sign)
    action = jnp.asarray(np.random.default_rng(0).standard_normal(at.task.action_size), jnp.float32)
    ctrl = np.asarray(at.task.control(at.task.params, None, action))
    turned = at.task.control(at.task.params, None, at.task.symmetry.action(action))
    np.testing.assert_allclose(turned, sign * ctrl[perm], atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("robot", "sizes"), [("g1", (98, 114, 29)), ("go1", (47, 67, 12)), ("h1", (41, 57, 10))]
)
def test_other_robots_step_and_stay_finite(robot: str, sizes: tuple[int, int, int]) -> None:
    config = replace(preset_config(robot), physics="native", num_envs=4)
    env = make_env(config)
    assert (env.obs_size, env.critic_size, env.action_size) == sizes
    assert env.control_dt == pytest.approx(0.02)
    state = jax.jit(env.reset)(jax.random.key(0))
    step = jax.jit(env.step)
    for i in range(10):
        state, moved = step(state, jnp.zeros((4, sizes[2])), jax.random.key(i))
    assert state.obs.policy.shape == (4, sizes[0])
    assert moved.next_obs.critic.shape == (4, sizes[1])
    assert not moved.nonfinite.any()
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state.obs, moved.reward)))
    assert not moved.terminated.any()  # the home pose stands for 0.2 s
