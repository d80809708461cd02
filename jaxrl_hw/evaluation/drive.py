"""Drive a policy under given commands, without learning, and record what the robot did.

N commands are followed side by side by N robots of one kind. Unless asked otherwise the world is
kind: no sensor noise, no pushes, the robot exactly as in its MJCF. It is stricter than training in
one way: legged robots run on the servo engine at a finer timestep (`physics.servo`), where a
policy that lives off the training simulation's errors is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.config.factory import make_task
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs import episode
from jaxrl_hw.envs.physics import servo
from jaxrl_hw.envs.tasks.api import draw
from jaxrl_hw.envs.vector import make_key
from jaxrl_hw.errors import UserError
from jaxrl_hw.evaluation.trajectory import Step, Trajectory
from jaxrl_hw.evaluation.worlds import (
    CALM,
    PUSH_EVERY_S,
    Conditions,
    World,
    commanded,
    driving_config,
    make_worlds,
    on_servos,
)
from jaxrl_hw.hardware import cpu_compiler, host_programs, xla
from jaxrl_hw.types import forget, to_policy


class DriveState(NamedTuple):
    """Everything between two control steps."""

    envs: Any  # episode.EnvState, leaves [N, ...]
    world: World
    key: Array
    steps: Array  # int32 [], control steps done


class Driver(NamedTuple):
    """N robots under command, as functions.

    reset(seed, command [N, 3], conditions of all robots or of each) -> DriveState
    step(state, action [N, A], command [N, 3]) -> (DriveState, Step)

    What the policy sees is `state.envs.obs.policy` [N, O]. A command takes effect, and shows in
    the observations, from the step it is given with.
    """

    task: str
    num_envs: int
    control_dt: float  # s
    timestep: float  # s
    reset: Callable[[int, Any, Conditions | Sequence[Conditions]], DriveState]
    step: Callable[[DriveState, Any, Any], tuple[DriveState, Step]]


def drive(
    config: Config,
    policy: Any,
    commands: Any,
    seconds: float,
    seed: int = 0,
    conditions: Conditions | Sequence[Conditions] = CALM,
    other: bool = False,
) -> Trajectory:
    """Let a policy follow commands.

    Args:
      policy: `Run.policy`, or any function of observations [N, O] to actions [N, A]; called once
        per control step, outside of jit. A fall clears its memory.
      commands: [N, 3] held for the whole time, or [T, N, 3] by control step; m/s, m/s, rad/s in the
        base frame. A task without commands takes only their number.
      seconds: how long, where the commands are held.
      seed: of gait phases, starts, noise, delays and pushes.
      conditions: how hard the world is, for all robots or for each of the N.
      other: on the robot's other model (`RobotSpec.other_mjcf`).

    Raises:
      UserError: the config cannot be used, or commands have another shape.
    """
    plan = np.asarray(commands, np.float32)
    if plan.ndim not in (2, 3) or plan.shape[-1] != 3:
        raise UserError(f"commands must have the shape (N, 3) or (T, N, 3), got {plan.shape}")
    driver = make_driver(config, plan.shape[-2], other)
    if plan.ndim == 2:
        steps = max(1, round(seconds / driver.control_dt))
        plan = np.broadcast_to(plan, (steps, *plan.shape))
    state, recorded = driver.reset(seed, plan[0], conditions), []
    policy = to_policy(policy)
    memory = policy.start(driver.num_envs)
    for command in plan:
        action, memory = policy.step(state.envs.obs.policy, memory)
        state, step = driver.step(state, action, command)
        memory = forget(memory, step.fell)
        recorded.append(step)
    stacked = jax.tree.map(lambda *x: np.stack(x), *jax.device_get(recorded))
    return Trajectory(driver.task, driver.control_dt, driver.timestep, stacked)


def make_driver(config: Config, num_envs: int, other: bool = False) -> Driver:
    """num_envs robots of a run's kind, or of its other model, ready to be driven; see `Driver`.

    Raises:
      UserError: the config cannot be used.
    """
    return _make_driver(replace(config, seed=0, run_dir="", mirror=""), num_envs, other)


@lru_cache(maxsize=4)  # what costs seconds is the compilation, which belongs to the functions
def _make_driver(config: Config, num_envs: int, other: bool) -> Driver:
    _allow_host_callbacks()
    config = driving_config(config, num_envs)
    task, physics = make_task(config, whole=True, other=other)
    task = on_servos(task)
    if task.name == "joystick":
        physics = servo.make(physics.model, physics.substeps, physics.fields)
    every = max(1, round(PUSH_EVERY_S / physics.control_dt))

    def start(key: Array, command: Array, world: World) -> DriveState:
        key, key_envs = jax.random.split(key)
        envs = fresh(world.params, command, key_envs)
        return DriveState(envs, world, key, jnp.zeros((), jnp.int32))

    def fresh(params: Any, command: Array, key: Array) -> Any:
        one = jax.vmap(lambda p, c, k: episode.reset(task, commanded(task, p, c), k))
        return one(params, command, draw(key, num_envs, task.numbers[0]))

    def step(state: DriveState, action: Array, command: Array) -> tuple[DriveState, Step]:
        key, key_step, key_fresh, key_push = jax.random.split(state.key, 4)
        due = (state.steps > 0) & (state.steps % every == 0)
        envs, world = state.envs, state.world
        if task.name == "joystick":
            envs = _push(envs, world.push_speed * due, key_push)
        drawn = draw(key_step, num_envs, task.numbers[1])
        following = fresh(world.params, command, key_fresh)
        envs, moved = jax.vmap(one)(envs, action, command, world.params, drawn, following)
        qpos, qvel = envs.physics.qpos, envs.physics.qvel
        recorded = Step(qpos, qvel, command, moved.terminated, moved.reward, moved.diagnostics)
        return DriveState(envs, world, key, state.steps + 1), recorded

    def one(
        state: Any, action: Array, command: Array, params: Any, key: Array, following: Any
    ) -> Any:
        now = commanded(task, params, command)
        return episode.step(task, physics, now, state, action, key, following)

    start_jit = jax.jit(start, compiler_options=cpu_compiler.small_code())
    step_jit = jax.jit(step, compiler_options=cpu_compiler.small_code())

    def reset(
        seed: int, command: Any, conditions: Conditions | Sequence[Conditions] = CALM
    ) -> DriveState:
        world = make_worlds(conditions, num_envs, task, physics)
        return start_jit(make_key(seed), jnp.asarray(command, jnp.float32), world)

    def advance(state: DriveState, action: Any, command: Any) -> tuple[DriveState, Step]:
        given = jnp.asarray(action, jnp.float32), jnp.asarray(command, jnp.float32)
        with host_programs.kept():  # the first call compiles
            return step_jit(state, *given)

    control_dt, timestep = physics.control_dt, float(physics.model.opt.timestep)
    return Driver(task.name, num_envs, control_dt, timestep, reset, advance)


def kicked(state: DriveState, kick: Any) -> DriveState:
    """The state after a sudden change of the bases' horizontal velocities, kick [N, 2] m/s."""
    envs = state.envs
    return state._replace(envs=_kick(envs, jnp.asarray(kick, envs.physics.qvel.dtype)))


def _kick(envs: Any, kick: Array) -> Any:
    physics = envs.physics
    return envs._replace(physics=physics._replace(qvel=physics.qvel.at[:, :2].add(kick)))


def _push(envs: Any, speed: Array, key: Array) -> Any:
    """Change horizontal velocities by speed [N] m/s in random directions. Consumes key."""
    angle = jax.random.uniform(key, envs.physics.time.shape, maxval=2.0 * jnp.pi)
    return _kick(envs, speed[:, None] * jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1))


def _allow_host_callbacks() -> None:
    """XLA's CPU client must run inline where a program calls back into Python."""
    xla.configure(fraction=None, cache_dir=None, platform="cpu", host_callback=True)
    xla.apply_pending()
