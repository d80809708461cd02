"""How hard a driven robot's world is: floor and load, motors, joints, sensors, delays, pushes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw.config.fields import settings_of, with_values
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.physics import servo
from jaxrl_hw.envs.physics.api import Physics
from jaxrl_hw.envs.tasks.api import Outcome, Task, TaskParams
from jaxrl_hw.errors import UserError

FINE_TIMESTEP = 0.002  # s


class Conditions(NamedTuple):
    """How hard a robot's world is. All off: an undisturbed, nominal robot. What is drawn is drawn
    at each start of each robot."""

    noise: float = 0.0
    """Sensor noise, as a factor on what policies are trained with."""
    friction: tuple[float, float] | None = None
    """Range of the floor's friction coefficient; None: the model's own."""
    torso_mass: tuple[float, float] = (0.0, 0.0)
    """Range of the mass added to the torso, kg."""
    delay_s: float = 0.0
    """An action arrives late by a time between 0 and this; at most a control step."""
    push_speed: float = 0.0
    """m/s: size of a sudden change of the base's horizontal velocity, in a random direction."""
    gains: tuple[float, float] = (1.0, 1.0)
    """Range of the factors on kp, kd and the largest torque of each motor."""
    joint_losses: tuple[float, float] = (1.0, 1.0)
    """Range of the factors on each joint's dry friction and damping, log-uniform."""
    joint_offset: float = 0.0
    """Largest error of each joint's zero, rad."""
    imu_tilt: float = 0.0
    """Largest rotation of the IMU about each axis, rad."""
    gyro_bias: float = 0.0
    """Largest constant error of the gyro about each axis, rad/s."""
    observation_delay_s: float = 0.0
    """The policy sees what was measured up to so long ago; at most a control step."""
    torso_offset: float = 0.0
    """Largest shift of the torso's centre of mass along each axis, m."""


CALM = Conditions()
PUSH_EVERY_S = 2.5


class World(NamedTuple):
    """The worlds of N robots as arrays."""

    params: TaskParams  # leaves [N]
    push_speed: Array  # [N] m/s


def driving_config(config: Config, num_envs: int) -> Config:
    """A run's config where nothing disturbs the robots (`setting(driven=...)`); the driver brings
    its own commands, pushes, friction and load."""
    robot = robot_spec(config)
    trained = config.timestep or robot.timestep
    whole = abs(robot.control_dt / FINE_TIMESTEP - round(robot.control_dt / FINE_TIMESTEP)) < 1e-6
    timestep = FINE_TIMESTEP if whole and trained > FINE_TIMESTEP else trained
    found = {key: one.about.get("driven") for key, one in settings_of(type(config)).items()}
    driven = {key: value for key, value in found.items() if value is not None}
    changes = {"num_envs": num_envs, "physics": "native", "timestep": timestep}
    return with_values(config, driven | changes)


def make_worlds(
    conditions: Conditions | Sequence[Conditions], num_envs: int, task: Task, physics: Physics
) -> World:
    """Conditions for all robots, or one for each, as arrays.

    Raises:
      UserError: there are not as many conditions as robots, or a delay is longer than a control
        step.
    """
    each = [conditions] * num_envs if isinstance(conditions, Conditions) else list(conditions)
    if len(each) != num_envs:
        raise UserError(f"{num_envs} robots need as many conditions, got {len(each)}")

    for name in ("delay_s", "observation_delay_s"):
        longest, step = max((getattr(c, name) for c in each), default=0.0), physics.control_dt
        if longest > step + 1e-9:
            raise UserError(
                f"{name} must be at most a control step, {1e3 * step:g} ms, "
                f"got {1e3 * longest:g} ms; try {step:g}"
            )

    def column(values: Sequence[float]) -> Array:
        return jnp.asarray(values, jnp.float32)

    def columns(ranges: Sequence[tuple[float, float]]) -> tuple[Array, Array]:
        return column([low for low, _ in ranges]), column([high for _, high in ranges])

    params = jax.tree.map(lambda value: jnp.full(num_envs, value, jnp.float32), task.params)
    if task.name == "joystick":
        nominal = (float(physics.model.geom("floor").friction[0]),) * 2
        gains = columns([c.gains for c in each])
        losses = columns([(math.log(c.joint_losses[0]), math.log(c.joint_losses[1])) for c in each])
        params = params._replace(
            noise=column([c.noise for c in each]),
            friction=columns([c.friction or nominal for c in each]),
            torso_mass=columns([c.torso_mass for c in each]),
            torso_offset=column([c.torso_offset for c in each]),
            kp=gains,
            kd=gains,
            torque_limit=gains,
            log_joint_friction=losses,
            log_joint_damping=losses,
            joint_offset=column([c.joint_offset for c in each]),
            imu_tilt=column([c.imu_tilt for c in each]),
            gyro_bias=column([c.gyro_bias for c in each]),
            action_delay=columns([(0.0, c.delay_s) for c in each]),
            observation_delay=columns([(0.0, c.observation_delay_s) for c in each]),
        )
    return World(params, column([c.push_speed for c in each]))


def commanded(task: Task, params: TaskParams, command: Array) -> TaskParams:
    """The task parameters of one robot that is given a command [3].

    A joystick that draws a new command at every step, from a range of no width, holds exactly that
    command, in its state and in all observations, also right after a reset.
    """
    if task.name != "joystick":
        return params
    vx, vy, yaw_rate = ((command[i], command[i]) for i in range(3))
    return params._replace(vx=vx, vy=vy, yaw_rate=yaw_rate)


def on_servos(task: Task) -> Task:
    """The task for the servo engine: power and contacts of all physics steps."""
    if task.name != "joystick":
        return task

    def outcome(
        params: TaskParams, state: Any, model: Any, physics: Any, sensed: Array, *rest: Any
    ) -> Outcome:
        out = task.outcome(params, state, model, physics, sensed[: -servo.EXTRA], *rest)
        power, touching = sensed[-servo.EXTRA :]
        measured = {"power": power, "self_contacts": touching}
        return out._replace(diagnostics={**out.diagnostics, **measured})

    return task._replace(outcome=outcome)
