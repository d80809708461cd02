"""The joystick task: a legged robot follows a commanded planar velocity and yaw rate."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.envs.physics.api import (
    ModelParams,
    PhysState,
    nominal_params,
    sensordata_at,
    state_at,
)
from jaxrl_hw.envs.tasks.api import Outcome, Start, Task
from jaxrl_hw.envs.tasks.joystick import (
    commands,
    gait,
    geometry,
    observations,
    randomize,
    rewards,
)
from jaxrl_hw.envs.tasks.joystick.layout import Legged, legged_layout
from jaxrl_hw.envs.tasks.joystick.params import JoystickParams, Range, params_of
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig, observation_sizes
from jaxrl_hw.types import Observation

CONTACT_FORCE = 1.0
"""N: a foot that carries more than this is on the ground."""


class JoystickState(NamedTuple):
    """What the task remembers between control steps."""

    command: Array  # [3] m/s, m/s, rad/s, base frame
    command_left: Array  # int32 [], control steps until the next command
    push_left: Array  # int32 [], control steps until the next push
    phase: Array  # [] of the gait, in cycles, 0 to 1
    action: Array  # [A], the last one


class _Joystick(NamedTuple):
    """The task's constants; its functions below take them first."""

    settings: JoystickConfig
    robot: Any  # robots.RobotSpec
    model: Any  # mujoco.MjModel, host side
    body: Legged
    at_home: PhysState
    home_sensordata: np.ndarray
    nominal: ModelParams
    torso: int
    floor: int
    dt: float


def make(config: JoystickConfig, robot: Any, model: Any) -> Task:
    """The task for a legged robot, a `RobotSpec`, and its compiled MjModel.

    Raises:
      UserError: the model lacks sensors or joints that the task reads.
    """
    body = legged_layout(model, robot.feet, robot.soft_limit)
    t = _Joystick(
        config,
        robot,
        model,
        body,
        state_at(model),
        sensordata_at(model),
        nominal_params(model, randomize.FIELDS),
        model.body(robot.torso).id,
        model.geom("floor").id,
        robot.control_dt,
    )
    return _task(t, *observation_sizes(len(t.body.home), len(robot.feet)))


def _task(t: _Joystick, obs_size: int, critic_size: int) -> Task:
    settings = t.settings
    return Task(
        name="joystick",
        obs_size=obs_size,
        critic_size=critic_size,
        action_size=len(t.body.home),
        episode_steps=round(settings.episode_s / t.dt),
        fields=randomize.FIELDS,
        symmetry=observations.symmetry(t.robot.mirror) if t.robot.mirror else None,
        reset=lambda params, key: _reset(t, params, key),
        control=lambda params, state, action: _target(t, action),
        outcome=lambda params, *args: _outcome(t, params, *args),
        params=params_of(settings),
        params_of=params_of,
        reward_weights=lambda params: params.reward,
        phase_mask=lambda params: observations.phase_mask(
            params.standing_phase, t.body.feet_from_rates, params.standing_phase_speed
        ),
        motion_prior=lambda: gait.stepping_in_place(params_of(settings), t.robot, t.model, t.body),
    )


def _target(t: _Joystick, action: Array) -> Array:
    """Joint targets [A] of an action [A], rad."""
    return jnp.asarray(t.body.home) + jnp.asarray(t.robot.action_scale, jnp.float32) * action


def _reset(t: _Joystick, p: JoystickParams, key: Array) -> Start:
    key_params, key_pose, key_task, key_noise = jax.random.split(key, 4)
    params, physics = t.nominal, t.at_home
    if t.settings.randomize:
        params = randomize.draw_params(p, t.model, t.torso, t.floor, t.nominal, key_params)
        physics = randomize.draw_pose(p, t.body, t.at_home, key_pose)
    u = jax.random.uniform(key_task, (8,))
    state = JoystickState(
        command=commands.draw(p, u[0:4]),
        command_left=_steps(t, u[4], p.resample_s),
        push_left=_push_wait(t, p, u[5]),
        phase=u[6],
        action=jnp.zeros(len(t.body.home)),
    )
    # the sensors of the home pose: feet on the floor, as they are but for the start's small offsets
    readings = _readings(t, state, params, physics, jnp.asarray(t.home_sensordata))
    return Start(physics, params, state, _observe(p, readings, key_noise))


def _outcome(
    t: _Joystick,
    p: JoystickParams,
    state: JoystickState,
    params: ModelParams,
    physics: PhysState,
    sensordata: Array,
    action: Array,
    key: Array,
) -> Outcome:
    key_events, key_noise = jax.random.split(key)
    signals = _signals(t, p, state, physics, sensordata, action)
    parts = rewards.weighted(signals, p.reward, t.dt)
    physics, state = _advance(t, p, state, physics, action, key_events)
    readings = _readings(t, state, params, physics, sensordata)
    obs = _observe(p, readings, key_noise)
    return Outcome(physics, state, obs, parts, signals.fell, _diagnostics(t, signals))


def _diagnostics(t: _Joystick, signals: rewards.Signals) -> dict[str, Array]:
    """Figures a roboticist asks for; `rewards` can look well where these do not."""
    off = jnp.abs(signals.velocity[:2] - signals.command[:2])
    return {
        "tracking/vx_error": off[0],
        "tracking/vy_error": off[1],
        "tracking/velocity_error": rewards.velocity_error(signals),
        "tracking/yaw_error": rewards.yaw_error(signals),
        "falls_per_min": signals.fell * (60.0 / t.dt),
        "foot_clearance": jnp.max(signals.foot_height),
        "power": signals.power,
        "self_contacts": signals.self_contacts,
    }


def _signals(
    t: _Joystick,
    p: JoystickParams,
    state: JoystickState,
    physics: PhysState,
    sensordata: Array,
    action: Array,
) -> rewards.Signals:
    b = t.body
    quat = physics.qpos[3:7]
    gravity = geometry.gravity_direction(quat)
    joint, joint_velocity = physics.qpos[b.qadr], physics.qvel[b.vadr]
    torque = jnp.clip(
        b.kp * (_target(t, action) - joint) - b.kd * joint_velocity, -b.torque_limit, b.torque_limit
    )
    feet = jnp.concatenate([physics.qvel[3:6], joint_velocity]) @ b.feet_from_rates
    standing = commands.is_to_stand(p, state.command, physics, feet)
    stance, swing_height = gait.wanted(p, t.robot, state.phase, standing)
    fell = (physics.qpos[2] < t.robot.fall_height) | (-gravity[2] < np.cos(t.settings.fall_tilt))
    return rewards.Signals(
        command=state.command,
        standing=standing,
        velocity=geometry.rotate_inverse(quat, physics.qvel[:3]),
        angular_velocity=physics.qvel[3:6],
        gravity=gravity,
        height_error=physics.qpos[2] - (t.robot.base_height - p.crouch),
        joint=joint - b.home,
        beyond_limit=jnp.maximum(b.lower - joint, 0.0) + jnp.maximum(joint - b.upper, 0.0),
        power=jnp.sum(jnp.abs(torque * joint_velocity)),
        torque=torque / b.torque_limit,
        action=action,
        last_action=state.action,
        posture=jnp.asarray(t.robot.posture, jnp.float32),
        foot_height=sensordata[b.foot_pos[:, 2]] - b.foot_rest,
        foot_speed=jnp.linalg.norm(sensordata[b.foot_vel[:, :2]], axis=-1),
        foot_sinking=jnp.maximum(-sensordata[b.foot_vel[:, 2]], 0.0),
        contact=sensordata[b.foot_force] > CONTACT_FORCE,
        self_contacts=_self_contacts(b, sensordata),
        stance=stance,
        swing_height=swing_height,
        fell=fell,
        velocity_sigma=p.velocity_sigma,
        velocity_fine_sigma=p.velocity_fine_sigma,
        yaw_sigma=p.yaw_sigma,
        height_sigma=p.height_sigma,
    )


def _self_contacts(b: Legged, sensordata: Array) -> Array:
    """Points [] at which the robot's own parts touch; 0 for a model that does not count them."""
    if b.contacts is None:
        return jnp.zeros(())
    return sensordata[b.contacts[0]] - sensordata[b.contacts[1]]


def _advance(
    t: _Joystick,
    p: JoystickParams,
    state: JoystickState,
    physics: PhysState,
    action: Array,
    key: Array,
) -> tuple[PhysState, JoystickState]:
    """Move the phase on; a new command and a push where they are due. Consumes key."""
    u = jax.random.uniform(key, (8,))
    command_left, push_left = state.command_left - 1, state.push_left - 1
    due, pushed = command_left <= 0, push_left <= 0
    push = _push(p, u[6:8]) * pushed
    physics = physics._replace(qvel=physics.qvel.at[:2].add(push))
    return physics, JoystickState(
        command=jnp.where(due, commands.draw(p, u[0:4]), state.command),
        command_left=jnp.where(due, _steps(t, u[4], p.resample_s), command_left),
        push_left=jnp.where(pushed, _push_wait(t, p, u[5]), push_left),
        phase=(state.phase + t.dt / t.robot.gait_period) % 1.0,
        action=action,
    )


def _push(p: JoystickParams, u: Array) -> Array:
    """A velocity [2], m/s, of uniform size and direction, from uniform numbers u [2]."""
    angle = 2.0 * jnp.pi * u[1]
    return p.push_speed * u[0] * jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def _readings(
    t: _Joystick, state: JoystickState, params: ModelParams, physics: PhysState, sensordata: Array
) -> observations.Readings:
    b, quat = t.body, physics.qpos[3:7]
    return observations.Readings(
        gyro=physics.qvel[3:6],
        gravity=geometry.gravity_direction(quat),
        command=state.command,
        joint=physics.qpos[b.qadr] - b.home,
        joint_velocity=physics.qvel[b.vadr],
        action=state.action,
        phase=state.phase,
        velocity=geometry.rotate_inverse(quat, physics.qvel[:3]),
        base_height=physics.qpos[2] - t.robot.base_height,
        foot_height=sensordata[b.foot_pos[:, 2]] - b.foot_rest,
        foot_contact=(sensordata[b.foot_force] > CONTACT_FORCE).astype(jnp.float32),
        friction=params["geom_friction"][t.floor, 0],
    )


def _observe(p: JoystickParams, readings: observations.Readings, key: Array) -> Observation:
    size, _ = observation_sizes(readings.joint.shape[0], readings.foot_height.shape[0])
    unit = jax.random.uniform(key, (size,), minval=-1.0, maxval=1.0)
    return observations.observe(readings, unit, p.noise)


def _steps(t: _Joystick, u: Array, seconds: Range) -> Array:
    """A number of control steps uniform over a range of seconds."""
    low, high = seconds
    return jnp.round((low + (high - low) * u) / t.dt).astype(jnp.int32)


def _push_wait(t: _Joystick, p: JoystickParams, u: Array) -> Array:
    return _steps(t, u, (0.5 * p.push_interval_s, 1.5 * p.push_interval_s))
