"""Drive a policy under given commands, without learning, and record what the robot did.

N commands are followed side by side by N robots of one kind. Unless asked otherwise the world is
kind: no sensor noise, no pushes, the robot exactly as in its MJCF. It is stricter than training in
one way: physics runs on MuJoCo's C engine at a finer timestep, where a policy that lives off the
coarse timestep's errors is found out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.config import Config
from jaxrl_hw.envs import episode, joystick
from jaxrl_hw.envs.api import Task
from jaxrl_hw.errors import UserError
from jaxrl_hw.factory import make_task
from jaxrl_hw.hardware import xla
from jaxrl_hw.loop import make_key
from jaxrl_hw.physics.api import Physics
from jaxrl_hw.robots import get_robot

FINE_TIMESTEP = 0.002  # s
NO_TIME_LIMIT = 1e6  # s

Policy = Callable[[Any], Any]
"""Policy observations [N, O] -> actions [N, A]; `Run.policy`, or any function of arrays."""


class Conditions(NamedTuple):
    """How hard the world is. All off: an undisturbed, nominal robot."""

    noise: bool = False
    """Sensor noise as the run was trained with."""
    randomize: bool = False
    """Friction, masses and start pose drawn as in training. Cartpole's start is always random."""
    push_speed: float = 0.0
    """m/s: size of a sudden change of the base's horizontal velocity, in a random direction."""
    push_interval_s: float = 2.5
    """Seconds between two pushes, the same for all robots."""


CALM = Conditions()


class Moment(NamedTuple):
    """One control step of N robots; leaves [N, ...], in a `Recording` [T, N, ...].

    qpos and qvel are from the step's end, or of the new start where the robot fell in it.
    """

    qpos: Any  # [N, nq] m, unit quaternions wxyz, rad
    qvel: Any  # [N, nv] m/s (world), rad/s (base frame)
    command: Any  # [N, 3] m/s, m/s, rad/s: what the robot was told
    fell: Any  # [N] bool: the episode ended in this step, and the robot was set back
    reward: Any  # [N]
    diagnostics: dict[str, Any]  # [N] each, the task's own figures


class DriveState(NamedTuple):
    """Everything between two control steps."""

    envs: Any  # episode.EnvState, leaves [N, ...]
    key: Array
    steps: Array  # int32 [], control steps done


class Driver(NamedTuple):
    """N robots under command, as functions.

    reset(seed, command [N, 3]) -> DriveState
    step(state, action [N, A], command [N, 3]) -> (DriveState, Moment)

    What the policy sees is `state.envs.obs.policy` [N, O]. A command takes effect, and shows in
    the observations, from the step it is given with.
    """

    task: str
    num_envs: int
    control_dt: float  # s
    timestep: float  # s
    reset: Callable[[int, Any], DriveState]
    step: Callable[[DriveState, Any, Any], tuple[DriveState, Moment]]


class Recording(NamedTuple):
    """What `drive` saw: T control steps of N robots, as NumPy arrays."""

    task: str
    control_dt: float  # s
    timestep: float  # s
    moments: Moment  # leaves [T, N, ...]

    @property
    def qpos(self) -> np.ndarray:
        """[T, N, nq]"""
        return np.asarray(self.moments.qpos)

    @property
    def commands(self) -> np.ndarray:
        """[T, N, 3] m/s, m/s, rad/s"""
        return np.asarray(self.moments.command)

    @property
    def velocity(self) -> np.ndarray:
        """[T, N, 3] m/s: the floating base's linear velocity in its own frame."""
        return rotate_inverse(self.qpos[..., 3:7], np.asarray(self.moments.qvel)[..., :3])

    @property
    def yaw_rate(self) -> np.ndarray:
        """[T, N] rad/s: the floating base's angular velocity about its own z axis."""
        return np.asarray(self.moments.qvel)[..., 5]

    @property
    def power(self) -> np.ndarray:
        """[T, N] W: mechanical power, the sum over joints of |torque * velocity|."""
        return np.asarray(self.moments.diagnostics["power"])

    @property
    def fell(self) -> np.ndarray:
        """[T, N] bool: the robot fell in this step."""
        return np.asarray(self.moments.fell)

    @property
    def falls(self) -> np.ndarray:
        """[N] int: how often each robot fell."""
        return self.fell.sum(axis=0)


def rotate_inverse(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """World-frame vectors [..., 3] in the body frames of unit quaternions [..., 4], wxyz."""
    w, axis = quat[..., :1], quat[..., 1:]
    cross = np.cross(axis, vector)
    return vector - 2.0 * w * cross + 2.0 * np.cross(axis, cross)


def drive(
    config: Config,
    policy: Policy,
    commands: Any,
    seconds: float,
    seed: int = 0,
    conditions: Conditions = CALM,
) -> Recording:
    """Let a policy follow commands.

    Args:
      config: of the run that trained the policy.
      policy: observations [N, O] -> actions [N, A]; called once per control step, outside of jit.
      commands: [N, 3] held for the whole time, or [T, N, 3] by control step; m/s, m/s, rad/s in the
        base frame. A task without commands takes only their number.
      seconds: how long, where the commands are held.
      seed: of gait phases, starts, noise and pushes.
      conditions: how hard the world is.

    Raises:
      UserError: the config cannot be used, or commands have another shape.
    """
    plan = np.asarray(commands, np.float32)
    if plan.ndim not in (2, 3) or plan.shape[-1] != 3:
        raise UserError(f"commands must have the shape (N, 3) or (T, N, 3), got {plan.shape}")
    driver = make_driver(config, plan.shape[-2], conditions)
    if plan.ndim == 2:
        steps = max(1, round(seconds / driver.control_dt))
        plan = np.broadcast_to(plan, (steps, *plan.shape))
    state, moments = driver.reset(seed, plan[0]), []
    for command in plan:
        action = policy(state.envs.obs.policy)
        state, moment = driver.step(state, action, command)
        moments.append(moment)
    stacked = jax.tree.map(lambda *x: np.stack(x), *jax.device_get(moments))
    return Recording(driver.task, driver.control_dt, driver.timestep, stacked)


@lru_cache(maxsize=4)  # what costs seconds is the compilation, which belongs to the functions
def make_driver(config: Config, num_envs: int, conditions: Conditions = CALM) -> Driver:
    """num_envs robots of a run's kind, ready to be driven; see `Driver`.

    Raises:
      UserError: the config cannot be used.
    """
    _allow_host_callbacks()
    config = driving_config(config, num_envs, conditions)
    task, physics = make_task(config)
    held = _commandable(config, task, physics)
    every = max(1, round(conditions.push_interval_s / physics.control_dt))

    def start(key: Array, command: Array) -> DriveState:
        key, key_envs = jax.random.split(key)
        one = jax.vmap(lambda k, c: episode.reset(held(c), k))
        envs = one(jax.random.split(key_envs, num_envs), command)
        return DriveState(envs, key, jnp.zeros((), jnp.int32))

    def step(state: DriveState, action: Array, command: Array) -> tuple[DriveState, Moment]:
        key, key_step, key_push = jax.random.split(state.key, 3)
        envs = state.envs
        if conditions.push_speed > 0.0 and task.name == "joystick":
            due = (state.steps > 0) & (state.steps % every == 0)
            envs = _push(envs, conditions.push_speed * due, key_push)
        one = jax.vmap(lambda s, a, c, k: episode.step(held(c), physics, s, a, k))
        envs, moved = one(envs, action, command, jax.random.split(key_step, num_envs))
        qpos, qvel = envs.physics.qpos, envs.physics.qvel
        moment = Moment(qpos, qvel, command, moved.terminated, moved.reward, moved.diagnostics)
        return DriveState(envs, key, state.steps + 1), moment

    start_jit, step_jit = jax.jit(start), jax.jit(step)
    return Driver(
        task.name,
        num_envs,
        physics.control_dt,
        float(physics.model.opt.timestep),
        lambda seed, command: start_jit(make_key(seed), jnp.asarray(command, jnp.float32)),
        lambda state, action, command: step_jit(
            state, jnp.asarray(action, jnp.float32), jnp.asarray(command, jnp.float32)
        ),
    )


def driving_config(config: Config, num_envs: int, conditions: Conditions) -> Config:
    """A run's config with the disturbances off that the conditions do not ask for."""
    robot = get_robot(config.robot)
    trained = config.timestep or robot.timestep
    whole = abs(robot.control_dt / FINE_TIMESTEP - round(robot.control_dt / FINE_TIMESTEP)) < 1e-6
    walking, cartpole = config.joystick, config.cartpole
    return replace(
        config,
        num_envs=num_envs,
        physics="native",
        timestep=FINE_TIMESTEP if whole and trained > FINE_TIMESTEP else trained,
        joystick=replace(
            walking,
            episode_s=NO_TIME_LIMIT,
            push_speed=0.0,  # the driver pushes by its own clock
            noise=walking.noise if conditions.noise else 0.0,
            randomize=walking.randomize and conditions.randomize,
            dry_friction=True,
        ),
        cartpole=replace(
            cartpole,
            episode_s=NO_TIME_LIMIT,
            randomize=True,
            pole_mass=cartpole.pole_mass if conditions.randomize else (1.0, 1.0),
        ),
    )


def _commandable(config: Config, task: Task, physics: Physics) -> Callable[[Array], Task]:
    """The task as a function of the command [3] it is to give.

    A joystick that draws a new command at every step, from a range of no width, holds exactly that
    command, in its state and in all observations, also right after a reset.
    """
    if task.name != "joystick":
        return lambda command: task
    robot = get_robot(config.robot)

    def held(command: Any) -> Task:
        pinned: Any = {
            name: (command[i], command[i]) for i, name in enumerate(("vx", "vy", "yaw_rate"))
        }
        settings = replace(config.joystick, zero_command=0.0, resample_s=(0.0, 0.0), **pinned)
        return joystick.make(settings, robot, physics.model)

    return held


def _push(envs: Any, speed: Array, key: Array) -> Any:
    """Change every base's horizontal velocity by speed m/s in a random direction. Consumes key."""
    physics = envs.physics
    angle = jax.random.uniform(key, physics.time.shape, maxval=2.0 * jnp.pi)
    kick = speed * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)
    return envs._replace(physics=physics._replace(qvel=physics.qvel.at[:, :2].add(kick)))


def _allow_host_callbacks() -> None:
    """XLA's CPU client must run inline where a program calls back into Python."""
    xla.configure(fraction=None, cache_dir=None, platform="cpu", host_callback=True)
    xla.apply_pending()
