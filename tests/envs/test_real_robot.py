"""What a real robot brings: its own motors, joints and sensors, and everything a little late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw import Stage, preset_config
from jaxrl_hw.config.factory import load_task, make_env, make_task
from jaxrl_hw.config.fields import with_values
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.validation import check
from jaxrl_hw.envs import episode
from jaxrl_hw.envs.physics import make_physics, servo
from jaxrl_hw.envs.physics.api import late_ctrl, nominal_params, state_at
from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks import task_entry, task_sizes
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.errors import UserError
from jaxrl_hw.train import main

ONE = (1.0, 1.0)
PLAIN = JoystickConfig(
    noise=0.0,
    push_speed=0.0,
    resample_s=(100.0, 100.0),
    dry_friction=False,
    link_mass=ONE,
    torso_mass=(0.0, 0.0),
    torso_offset=0.0,
    friction=(0.8, 0.8),
    joint_friction=ONE,
    joint_damping=ONE,
    armature=ONE,
    kp=ONE,
    kd=ONE,
    torque_limit=ONE,
    joint_offset=0.0,
    imu_tilt=0.0,
    gyro_bias=0.0,
    action_delay=(0.0, 0.0),
    observation_delay=(0.0, 0.0),
    start_yaw=0.0,
    start_joint=0.0,
    start_velocity=0.0,
)
KEY = jax.random.key(4)


def settings(**changes: Any) -> Config:
    joystick = replace(PLAIN, **changes)
    return Config(robot="g1_12dof", physics="native", timestep=0.005, joystick=joystick)


class Robot:
    """One robot of g1_12dof, stepped through the task and its engine."""

    def __init__(self, floats: bool = False, **changes: Any) -> None:
        config = settings(**changes)
        self.task, model = load_task(config)
        if floats:
            model.opt.gravity[:] = 0.0
        self.physics = make_physics("native", model, 4, self.task.fields, 1, self.task.late)
        # the task's parameters are arguments: robots of other settings share their programs
        start = jax.jit(lambda params, key: episode.reset(self.task, params, key))
        self.start = start(self.task.params, KEY)
        if floats:
            at = self.start.physics
            self.start = self.start._replace(physics=at._replace(qpos=at.qpos.at[2].add(1.0)))
        step = jax.jit(
            lambda params, state, action: episode.step(
                self.task, self.physics, params, state, action, KEY
            )
        )
        self.step = partial(step, self.task.params)

    def run(self, actions: Sequence[Any]) -> list[Any]:
        """The states after each action."""
        state, states = self.start, []
        for action in actions:
            state, moved = self.step(state, jnp.asarray(action, jnp.float32))
            assert not bool(moved.terminated)
            states.append(state)
        return states


def some_actions(count: int, size: float = 0.3) -> list[np.ndarray]:
    return list(size * np.random.default_rng(1).standard_normal((count, 12)).astype(np.float32))


def joints(state: Any) -> np.ndarray:
    return np.asarray(state.physics.qpos[7:])


def test_a_joint_stands_at_its_target_less_the_error_of_its_zero() -> None:
    robot = Robot(floats=True, joint_offset=0.02)
    offset = np.asarray(robot.start.task.own["joint_offset"])
    assert 0.01 < np.abs(offset).max() <= 0.02
    action = 0.2 * np.ones(12, np.float32)
    end = robot.run([action] * 100)[-1]
    home = robot.physics.model.key("home").qpos[7:]
    # the floating robot turns a little, which pulls its legs apart
    np.testing.assert_allclose(joints(end), home + 0.25 * 0.2 - offset, atol=1e-3)
    # and its encoder reads the target
    np.testing.assert_allclose(end.obs.policy[9:21], np.full(12, 0.05), atol=1e-3)
    np.testing.assert_allclose(end.obs.critic[9:21], 0.05 - offset, atol=1e-3)


@pytest.mark.slow
def test_actions_a_control_step_late_give_the_same_trajectory_a_step_later() -> None:
    actions = some_actions(8)
    late = Robot(action_delay=(0.02, 0.02)).run([*actions, np.zeros(12)])
    prompt = Robot().run([np.zeros(12), *actions])
    for after, before in zip(late, prompt, strict=True):
        np.testing.assert_allclose(after.physics.qpos, before.physics.qpos, atol=1e-6)
    assert np.abs(joints(late[-1]) - joints(late[0])).max() > 0.02


@pytest.mark.parametrize("delay", [0, 1, 3])
def test_a_late_action_arrives_after_its_physics_steps(delay: int) -> None:
    robot = Robot(action_delay=(delay * 0.005,) * 2)
    actions = some_actions(2)
    model = robot.physics.model
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    home = np.array(model.key("home").qpos[7:])
    before = home
    for action in actions:
        target = home + 0.25 * action
        for k in range(4):
            data.ctrl[:] = before if k < delay else target
            mujoco.mj_step(model, data)
        before = target
    np.testing.assert_allclose(robot.run(actions)[-1].physics.qpos, data.qpos, atol=1e-5)


def test_both_engines_change_ctrl_at_the_same_physics_step() -> None:
    model = compile_model(get_robot("cartpole").mjcf, 0.002)
    ends = {}
    for engine in ("native", "mjx"):
        physics = make_physics(engine, model, 10, (), 1, late=True)
        step = jax.jit(physics.step)
        for delay in (0, 4, 10):
            state = state_at(model)
            for now in (1.0, -1.0):
                ctrl = late_ctrl(jnp.array([-now]), jnp.array([now]), jnp.array(delay))
                state, _ = step({}, state, ctrl)
            ends[engine, delay] = np.asarray(state.qvel)
    for delay in (0, 4, 10):
        np.testing.assert_allclose(ends["native", delay], ends["mjx", delay], atol=1e-4)
    assert len({float(ends["native", delay][0]) for delay in (0, 4, 10)}) == 3


def stronger(model: mujoco.MjModel, factor: float) -> mujoco.MjModel:
    """The model with all gains and torque limits of its servos multiplied."""
    other = model.__copy__()
    other.actuator_gainprm[:, 0] *= factor
    other.actuator_biasprm[:, 1:3] *= factor
    other.actuator_forcerange[:] *= factor
    return other


@pytest.mark.parametrize("engine", ["native", "servo"])
def test_gains_and_torque_limits_multiply_the_torque(engine: str) -> None:
    drawn = dict.fromkeys(("kp", "kd", "torque_limit"), (1.25, 1.25))
    robot, model = Robot(**drawn), Robot().physics.model
    fields, start = robot.task.fields, robot.start
    heavy = stronger(model, 1.25)
    target = np.asarray(model.key("home").qpos[7:]) + np.array([1.5, 0.2] * 6)
    if engine == "servo":
        plain, other = servo.make(model, 4, fields), servo.make(heavy, 4, ())
        ctrl = late_ctrl(*(jnp.asarray(target, jnp.float32),) * 2, jnp.zeros(()))
    else:
        plain, other = make_physics("native", model, 4, fields, 1), make_physics("native", heavy, 4)
        ctrl = jnp.asarray(target, jnp.float32)
    own, _ = plain.step(start.params, start.physics, ctrl)
    wanted, _ = other.step({}, start.physics, ctrl)
    weak, _ = plain.step(nominal_params(model, fields), start.physics, ctrl)
    np.testing.assert_allclose(own.qvel, wanted.qvel, atol=1e-4)
    assert np.abs(own.qvel - weak.qvel).max() > 0.1


def test_power_and_torque_are_those_of_the_drawn_gains() -> None:
    drawn = dict.fromkeys(("kp", "kd", "torque_limit"), (1.25, 1.25))
    strong, plain = Robot(**drawn), Robot()
    after = plain.run(some_actions(1, 2.0))[0]
    action = jnp.asarray(some_actions(1, 8.0)[0])  # beyond some of the limits
    seen = jnp.zeros(plain.physics.model.nsensordata)
    power = [
        float(
            robot.task.outcome(
                robot.task.params,
                robot.start.task,
                robot.start.params,
                after.physics,
                seen,
                action,
                KEY,
            ).diagnostics["power"]
        )
        for robot in (plain, strong)
    ]
    # clip(1.25 x, 1.25 limit) = 1.25 clip(x, limit)
    assert power[1] == pytest.approx(1.25 * power[0], rel=1e-4)


def test_joint_damping_is_multiplied_in_its_range_evenly_by_logarithm() -> None:
    task, model = load_task(settings(joint_damping=(0.5, 2.0)))
    starts = jax.jit(jax.vmap(lambda key: task.reset(task.params, key)))
    drawn = starts(jax.random.split(KEY, 512)).params["dof_damping"]
    factor = np.asarray(drawn)[:, 6:] / model.dof_damping[6:]
    assert 0.5 - 1e-5 <= factor.min() < 0.51
    assert 1.98 < factor.max() <= 2.0 + 1e-5
    assert abs((factor < 1.0).mean() - 0.5) < 0.03


def test_the_imu_is_tilted_and_biased_for_the_policy_alone() -> None:
    robot = Robot(imu_tilt=0.1, gyro_bias=0.05)
    own = robot.start.task.own
    bias = np.asarray(own["gyro_bias"])
    assert 0.0 < np.abs(bias).max() <= 0.05
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, np.asarray(own["imu_quat"], np.float64))
    turn = matrix.reshape(3, 3)
    angle = np.arccos((np.trace(turn) - 1) / 2)
    assert 0.01 < angle <= 0.1 * np.sqrt(3) + 1e-6
    for state in [robot.start, *robot.run(some_actions(4))]:
        policy, truth = np.asarray(state.obs.policy), np.asarray(state.obs.critic)
        gyro, gravity = truth[:3] / 0.25, truth[3:6]
        np.testing.assert_allclose(policy[:3] / 0.25, turn.T @ gyro + bias, atol=1e-5)
        np.testing.assert_allclose(policy[3:6], turn.T @ gravity, atol=1e-6)
        np.testing.assert_array_equal(policy[6:], truth[6:47])


@pytest.mark.parametrize("part", [0.0, 0.25, 1.0])
def test_the_policy_sees_what_was_measured_that_long_ago(part: float) -> None:
    robot = Robot(observation_delay=(part * 0.02, part * 0.02), start_velocity=0.3)
    states = robot.run(some_actions(4))
    for before, after in zip([robot.start, *states], states, strict=False):
        old, now = np.asarray(before.obs.critic), np.asarray(after.obs.critic)
        wanted = now[:47] + part * (old[:47] - now[:47])
        for known in (slice(6, 9), slice(33, 47)):  # command, last action and phase are not sensed
            wanted[known] = now[known]
        np.testing.assert_allclose(after.obs.policy, wanted, atol=1e-5)
    assert np.abs(states[0].obs.critic[:3] - robot.start.obs.critic[:3]).max() > 1e-3


def test_what_is_off_adds_no_field_no_state_and_no_late_ctrl() -> None:
    task, physics = make_task(settings())
    start = task.reset(task.params, KEY)
    assert not start.task.own
    assert not task.late
    assert not {name for name in task.fields if name.startswith("actuator")}
    assert "dof_damping" not in task.fields
    assert physics.fields == task.fields


def test_a_part_is_there_where_any_stage_of_a_run_needs_it() -> None:
    stage = Stage(1000, {"joystick.action_delay": (0.0, 0.02), "joystick.kp": (0.9, 1.1)})
    config = replace(settings(), num_envs=2, curriculum=(stage,))
    env = make_env(config)
    state = env.reset(KEY, env.params_at(jnp.array([0, 0], jnp.uint32)))
    assert set(state.task.own) == {"action_delay"}
    assert np.all(np.asarray(state.task.own["action_delay"]) == 0.0)
    assert "actuator_gainprm" in state.params
    later = env.reset(KEY, env.params_at(jnp.array([0, 2000], jnp.uint32)))
    assert np.any(np.asarray(later.task.own["action_delay"]) > 0.0)
    chex.assert_tree_all_finite(env.step(state, jnp.zeros((2, 12)), KEY)[0])


def test_a_range_of_delays_that_begins_below_0_leaves_some_robots_without_delay() -> None:
    wide = (-0.01, 0.02)
    task, _ = make_task(settings(action_delay=wide, observation_delay=wide))
    start = jax.vmap(lambda key: task.reset(task.params, key))(jax.random.split(KEY, 900))
    for name, longest in (("action_delay", 4.0), ("observation_delay", 1.0)):
        late = np.asarray(start.task.own[name])
        assert late.min() == 0.0
        assert 0.9 * longest < late.max() <= longest
        # a third of the range is below 0, and rounding to physics steps of 5 ms adds a twelfth
        assert 0.25 < np.mean(late == 0.0) < 0.5


@pytest.mark.parametrize("name", ["action_delay", "observation_delay"])
def test_a_delay_longer_than_a_control_step_is_refused_with_its_length(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flag = f"--joystick.{name.replace('_', '-')}"
    assert main(["--robot", "g1_12dof", flag, "0", "0.03"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    for part in (flag, "20 ms", "30 ms"):
        assert part in err
    with pytest.raises(UserError, match="20 ms"):
        make_task(settings(**{name: (0.0, 0.03)}))
    stage = Stage(1000, {f"joystick.{name}": (0.0, 0.03)})
    with pytest.raises(UserError, match="20 ms"):
        check(with_values(preset_config("g1_12dof"), {"curriculum": (stage,)}))


def test_a_range_of_delays_that_ends_below_0_is_refused() -> None:
    with pytest.raises(UserError, match=r"-0\.01"):
        make_task(settings(action_delay=(-0.02, -0.01)))


def test_a_plan_knows_how_large_the_parts_make_an_environment() -> None:
    robot, entry = get_robot("g1_12dof"), task_entry("joystick")
    for changes in (
        {},
        {"kp": (0.9, 1.1)},
        {"joint_damping": (0.5, 2.0), "joint_offset": 0.01, "imu_tilt": 0.01},
        {"action_delay": (0.0, 0.01), "observation_delay": (0.0, 0.01)},
    ):
        counts = []
        for more in ({}, changes):
            task, _ = load_task(settings(**more))
            form = jax.eval_shape(lambda key, task=task: task.reset(task.params, key), KEY)
            counts.append(sum(leaf.size for leaf in jax.tree.leaves((form.params, form.task))))
        planned = entry.more_numbers([settings(**changes).joystick], robot)
        assert planned == counts[1] - counts[0]


def test_a_plan_knows_what_foresight_adds_to_an_environment() -> None:
    robot, counts, planned = get_robot("g1_12dof"), [], []
    for foresight in (False, True):
        task, _ = load_task(settings(foresight=foresight))
        form = jax.eval_shape(lambda key, task=task: task.reset(task.params, key), KEY)
        counts.append(sum(leaf.size for leaf in jax.tree.leaves((form.task, form.obs))))
        wanted = settings(foresight=foresight).joystick
        planned.append(task_sizes("joystick", robot, wanted))
        assert planned[-1][:2] == (task.obs_size, task.critic_size)
    assert planned[1][2] - planned[0][2] == counts[1] - counts[0] == 12


def test_a_drawn_robot_weighs_the_same_on_a_card_with_tf32() -> None:
    """TF32, the default of recent NVIDIA cards, would take a thousandth off each mass."""
    task, _ = make_task(Config(robot="g1_12dof", physics="native"))
    lowered = jax.jit(task.reset).lower(task.params, KEY).as_text()
    products = [line for line in lowered.splitlines() if "dot_general" in line]
    assert products
    assert [line for line in products if "[HIGHEST, HIGHEST]" not in line] == []
