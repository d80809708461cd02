"""How hard a driven robot's world is: friction, load, late actions, sensor noise, pushes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array

from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.physics.api import Physics
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks.api import Outcome, Task
from jaxrl_hw.envs.tasks.joystick import task as joystick
from jaxrl_hw.errors import UserError

FINE_TIMESTEP = 0.002  # s
NO_TIME_LIMIT = 1e6  # s


class Conditions(NamedTuple):
    """How hard a robot's world is. All off: an undisturbed, nominal robot."""

    noise: float = 0.0
    """Sensor noise, as a factor on what policies are trained with."""
    friction: tuple[float, float] | None = None
    """Range of the floor's friction coefficient, drawn at each start; None: the model's own."""
    torso_mass: tuple[float, float] = (0.0, 0.0)
    """Range of the mass added to the torso, kg, drawn at each start."""
    delay_s: float = 0.0
    """An action arrives late by a time between 0 and this, drawn per robot; at most a control
    step."""
    push_speed: float = 0.0
    """m/s: size of a sudden change of the base's horizontal velocity, in a random direction."""


CALM = Conditions()
PUSH_EVERY_S = 2.5


class World(NamedTuple):
    """Conditions of N robots as arrays."""

    noise: Array  # [N]
    friction: Array  # [N, 2]
    torso_mass: Array  # [N, 2] kg
    delay: Array  # [N] largest delay, physics steps
    push_speed: Array  # [N] m/s


def driving_config(config: Config, num_envs: int) -> Config:
    """A run's config with every disturbance off; the driver brings its own."""
    robot = get_robot(config.robot)
    trained = config.timestep or robot.timestep
    whole = abs(robot.control_dt / FINE_TIMESTEP - round(robot.control_dt / FINE_TIMESTEP)) < 1e-6
    return replace(
        config,
        num_envs=num_envs,
        physics="native",
        timestep=FINE_TIMESTEP if whole and trained > FINE_TIMESTEP else trained,
        joystick=replace(
            config.joystick,
            episode_s=NO_TIME_LIMIT,
            push_speed=0.0,  # the driver pushes by its own clock
            randomize=True,  # friction and mass, within the ranges of `World`
            link_mass=(1.0, 1.0),
            torso_offset=0.0,
            joint_friction=(1.0, 1.0),
            armature=(1.0, 1.0),
            dry_friction=True,
            start_yaw=0.0,
            start_joint=0.0,
            start_velocity=0.0,
        ),
        cartpole=replace(
            config.cartpole, episode_s=NO_TIME_LIMIT, randomize=True, pole_mass=(1.0, 1.0)
        ),
    )


def make_worlds(
    conditions: Conditions | Sequence[Conditions], num_envs: int, physics: Physics
) -> World:
    """Conditions for all robots, or one for each, as arrays.

    Raises:
      UserError: as many conditions as robots are needed.
    """
    each = [conditions] * num_envs if isinstance(conditions, Conditions) else list(conditions)
    if len(each) != num_envs:
        raise UserError(f"{num_envs} robots need as many conditions, got {len(each)}")
    geoms = physics.model.geom("floor").friction if physics.engine == "servo" else (1.0,)
    nominal = (float(geoms[0]),) * 2
    timestep = float(physics.model.opt.timestep)
    rows = [
        (c.noise, c.friction or nominal, c.torso_mass, round(c.delay_s / timestep), c.push_speed)
        for c in each
    ]
    return World(*(jnp.asarray(column, jnp.float32) for column in zip(*rows, strict=True)))


def told_task(config: Config, task: Task, physics: Physics) -> Callable[[Array, World], Task]:
    """The task as a function of the command [3] it is to give and of one robot's world.

    A joystick that draws a new command at every step, from a range of no width, holds exactly that
    command, in its state and in all observations, also right after a reset.
    """
    if task.name != "joystick":
        return lambda command, world: task
    robot = get_robot(config.robot)

    def told(command: Any, world: Any) -> Task:
        pinned: Any = {
            name: (command[i], command[i]) for i, name in enumerate(("vx", "vy", "yaw_rate"))
        }
        pinned |= {name: tuple(getattr(world, name)) for name in ("friction", "torso_mass")}
        settings = replace(
            config.joystick,
            zero_command=0.0,
            resample_s=(0.0, 0.0),
            noise=world.noise,
            **pinned,
        )
        return _on_servos(joystick.make(settings, robot, physics.model), world.delay)

    return told


def _on_servos(task: Task, delay: Array) -> Task:
    """The task for the servo engine: late actions, and power as the motors had it."""

    def control(state: Any, action: Array) -> Array:
        before, now = task.control(state, state.action), task.control(state, action)
        return jnp.concatenate([before, now, delay[None]])

    def outcome(state: Any, params: Any, phys: Any, sensed: Array, *rest: Any) -> Outcome:
        out = task.outcome(state, params, phys, sensed[:-1], *rest)
        return out._replace(diagnostics={**out.diagnostics, "power": sensed[-1]})

    return task._replace(control=control, outcome=outcome)
