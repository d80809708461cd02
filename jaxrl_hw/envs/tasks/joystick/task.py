"""The joystick task: a legged robot follows a commanded planar velocity and yaw rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
from jaxrl_hw.envs.tasks.api import Outcome, Start, Task, uniform
from jaxrl_hw.envs.tasks.joystick import (
    commands,
    gait,
    geometry,
    motors,
    observations,
    randomize,
    rewards,
    sensors,
    signals,
)
from jaxrl_hw.envs.tasks.joystick.layout import action_limit, legged_layout
from jaxrl_hw.envs.tasks.joystick.params import (
    ALL,
    NONE,
    JoystickParams,
    Range,
    params_of,
    parts_of,
)
from jaxrl_hw.envs.tasks.joystick.settings import (
    AHEAD,
    JoystickConfig,
    check_times,
    observation_sizes,
)
from jaxrl_hw.envs.tasks.joystick.state import Ahead, Joystick, JoystickState, target_of
from jaxrl_hw.types import Observation


def make(config: JoystickConfig, robot: Any, model: Any) -> Task:
    """The task for a legged robot, a `RobotSpec`, and its compiled MjModel.

    Raises:
      UserError: the model lacks sensors or joints that the task reads, or a delay or the gait
        period does not suit the control step.
    """
    check_times(config, robot)
    body = legged_layout(model, robot.feet, robot.soft_limit)
    t = Joystick(
        config,
        robot,
        model,
        body,
        state_at(model),
        sensordata_at(model),
        NONE,
        {},
        model.body(robot.torso).id,
        model.geom("floor").id,
        robot.control_dt,
        float(model.opt.timestep),
    )
    return _with_parts(t, [params_of(config)])


def _with_parts(t: Joystick, stages: Sequence[JoystickParams] | None) -> Task:
    """The task that simulates what these parameters need; None for all that there is."""
    parts = ALL if stages is None else parts_of(stages)
    parts = parts if t.settings.randomize else NONE
    nominal = nominal_params(t.model, randomize.fields(parts))
    return _task(t._replace(parts=parts, nominal=nominal))


def _task(t: Joystick) -> Task:
    settings = t.settings
    joints, feet, foresight = len(t.body.home), len(t.robot.feet), settings.foresight
    obs_size, critic_size = observation_sizes(joints, feet, foresight)
    return Task(
        name="joystick",
        obs_size=obs_size,
        critic_size=critic_size,
        action_size=len(t.body.home),
        episode_steps=round(settings.episode_s / t.dt),
        fields=randomize.fields(t.parts),
        ahead_size=AHEAD * foresight,
        symmetry=observations.symmetry(t.robot.mirror, foresight) if t.robot.mirror else None,
        reset=lambda params, key: _reset(t, params, key),
        control=lambda params, state, action: _control(t, state, action),
        outcome=lambda params, *args: _outcome(t, params, *args),
        params=params_of(settings),
        params_of=params_of,
        reward_weights=lambda params: params.reward,
        phase_mask=lambda params: observations.phase_mask(
            params.standing_phase, t.body.feet_from_rates, params.standing_phase_speed
        ),
        late=t.parts.action_delay,
        numbers=(sum(_reset_numbers(t)), sum(_outcome_numbers(t))),
        action_limit=action_limit(t.body, np.asarray(t.robot.action_scale, np.float32)),
        with_parts=lambda stages: _with_parts(t, stages),
        motion_prior=lambda: gait.stepping_in_place(params_of(settings), t.robot, t.model, t.body),
    )


def _control(t: Joystick, state: JoystickState, action: Array) -> Array:
    if t.parts == NONE:
        return target_of(t, action)
    return motors.ctrl(state.own, target_of(t, state.action), target_of(t, action))


def _reset(t: Joystick, p: JoystickParams, key: Array) -> Start:
    sizes = _reset_numbers(t)
    u, unit, *of_robot = jnp.split(uniform(key, sum(sizes)), np.cumsum(sizes)[:-1])
    params, physics, own = t.nominal, t.at_home, sensors.Own()
    if t.settings.randomize:
        numbers, of_pose = (_signed(part) for part in of_robot)
        found = randomize.named(randomize.wanted_numbers(t.parts, t.model), numbers)
        params = randomize.model_params(p, t.model, t.torso, t.floor, t.nominal, found)
        own = randomize.own_of(p, t.parts, found, t.timestep, t.dt)
        physics = randomize.start_pose(p, t.body, t.at_home, of_pose)
    state = JoystickState(
        command=commands.draw(p, u[0:4]),
        command_left=_steps(t, u[4], p.resample_s),
        push_left=_push_wait(t, p, u[5]),
        phase=u[6],
        action=jnp.zeros(len(t.body.home)),
        own=own,
        ahead=_draw_ahead(p, u[8:]) if t.settings.foresight else (),
    )
    # the sensors of the home pose: feet on the floor, as they are but for the start's small offsets
    readings = signals.readings(t, state, params, physics, jnp.asarray(t.home_sensordata))
    # before an episode's first moment nothing has moved
    state = state._replace(own=sensors.remembered(own, readings))
    return Start(physics, params, state, _observe(p, readings, state.own, unit))


def _outcome(
    t: Joystick,
    p: JoystickParams,
    state: JoystickState,
    params: ModelParams,
    physics: PhysState,
    sensordata: Array,
    action: Array,
    key: Array,
) -> Outcome:
    sizes = _outcome_numbers(t)
    u, unit = jnp.split(uniform(key, sum(sizes)), sizes[:1])
    found = signals.of(t, p, state, params, physics, sensordata, action)
    parts = rewards.weighted(found, p.reward, t.dt)
    physics, state = _advance(t, p, state, physics, action, u)
    readings = signals.readings(t, state, params, physics, sensordata)
    obs = _observe(p, readings, state.own, unit)
    state = state._replace(own=sensors.remembered(state.own, readings))
    return Outcome(physics, state, obs, parts, found.fell, signals.diagnostics(t, found))


def _advance(
    t: Joystick,
    p: JoystickParams,
    state: JoystickState,
    physics: PhysState,
    action: Array,
    u: Array,
) -> tuple[PhysState, JoystickState]:
    """Move the phase on; a new command and a push where they are due, by uniform numbers u."""
    command_left, push_left = state.command_left - 1, state.push_left - 1
    due, pushed = command_left <= 0, push_left <= 0
    if isinstance(state.ahead, Ahead):
        now, drawn = state.ahead, _draw_ahead(p, u[8:])
        ahead: Ahead | tuple[()] = Ahead(
            jnp.where(due, drawn.command, now.command), jnp.where(pushed, drawn.push, now.push)
        )
    else:
        now, ahead = Ahead(commands.draw(p, u[0:4]), _push(p, u[6:8])), ()
    kick = geometry.from_heading(physics.qpos[3:7], now.push)
    physics = physics._replace(qvel=physics.qvel.at[:2].add(kick * pushed))
    return physics, JoystickState(
        command=jnp.where(due, now.command, state.command),
        command_left=jnp.where(due, _steps(t, u[4], p.resample_s), command_left),
        push_left=jnp.where(pushed, _push_wait(t, p, u[5]), push_left),
        phase=(state.phase + t.dt / t.robot.gait_period) % 1.0,
        action=action,
        own=state.own,
        ahead=ahead,
    )


def _outcome_numbers(t: Joystick) -> tuple[int, int]:
    """Random numbers for what happens to a robot, 8 and 6 for what is drawn in advance, and for
    the noise of its observation."""
    noise, _ = observation_sizes(len(t.body.home), len(t.robot.feet))
    return 14 if t.settings.foresight else 8, noise


def _reset_numbers(t: Joystick) -> tuple[int, ...]:
    """The same for a fresh episode; then for its robot's own properties and for its pose."""
    if not t.settings.randomize:
        return _outcome_numbers(t)
    of_robot = sum(randomize.wanted_numbers(t.parts, t.model).values())
    return *_outcome_numbers(t), of_robot, randomize.pose_size(t.body)


def _signed(u: Array) -> Array:
    """Numbers in [0, 1) mapped onto [-1, 1)."""
    return 2.0 * u - 1.0


def _draw_ahead(p: JoystickParams, u: Array) -> Ahead:
    """What comes next, from uniform numbers u [6]."""
    return Ahead(commands.draw(p, u[:4]), _push(p, u[4:]))


def _push(p: JoystickParams, u: Array) -> Array:
    """A velocity [2], m/s, in the frame of the heading, from uniform numbers u [2].

    Its size is uniform. So is its direction, or, with probability `push_sideways`, it is within 30
    degrees of the robot's left or right.
    """
    share = p.push_sideways
    sideways = u[1] < share
    part, whole = jnp.where(sideways, u[1], u[1] - share), jnp.where(sideways, share, 1.0 - share)
    turn = part / jnp.maximum(whole, 1e-6)
    side = jnp.floor(2.0 * turn)
    aside = jnp.pi * (0.5 + side + (2.0 * turn - side - 0.5) / 3.0)
    angle = jnp.where(sideways, aside, 2.0 * jnp.pi * turn)
    return p.push_speed * u[0] * jnp.stack([jnp.cos(angle), jnp.sin(angle)])


def _observe(
    p: JoystickParams, readings: observations.Readings, own: sensors.Own, u: Array
) -> Observation:
    return observations.observe(readings, sensors.seen(own, readings), _signed(u), p.noise)


def _steps(t: Joystick, u: Array, seconds: Range) -> Array:
    """A number of control steps uniform over a range of seconds."""
    low, high = seconds
    return jnp.round((low + (high - low) * u) / t.dt).astype(jnp.int32)


def _push_wait(t: Joystick, p: JoystickParams, u: Array) -> Array:
    return _steps(t, u, (0.5 * p.push_interval_s, 1.5 * p.push_interval_s))
