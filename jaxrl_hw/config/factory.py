"""From a Config to environments and an algorithm."""

from __future__ import annotations

import jax
import mujoco
import numpy as np

from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.config.resolve import algorithm_needs as algorithm_needs
from jaxrl_hw.config.resolve import robot_spec, stage_settings, task_name, task_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs import tasks
from jaxrl_hw.envs.physics import Physics, make_physics
from jaxrl_hw.envs.physics.model import check_home_pose, compile_model
from jaxrl_hw.envs.tasks.api import Task, TaskParams
from jaxrl_hw.envs.vector import Env, make_vector_env, spec_of
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware import xla
from jaxrl_hw.hardware.detect import usable_cores
from jaxrl_hw.types import Algorithm, Learner, PolicyParts


def load_task(
    config: Config, whole: bool = False, other: bool = False
) -> tuple[Task, mujoco.MjModel]:
    """The config's task and its model, without an engine.

    Args:
      whole: with all that the task can simulate, and not only with what the config switches on.
      other: with the robot's other model.

    Raises:
      ValueError: the robot has no other model.
      UserError: unknown robot or task, a timestep that does not divide the control step, or a model
        that the task cannot use.
    """
    robot, settings = robot_spec(config), task_settings(config)
    if robot.mjcf is None:
        task, physics = tasks.make_world(task_name(config), settings, robot)
        return task, physics.model
    timestep = config.timestep or robot.timestep
    substeps = round(robot.control_dt / timestep)
    if substeps < 1 or abs(substeps * timestep - robot.control_dt) > 1e-9:
        raise UserError(
            f"--timestep must divide the control step of {robot.control_dt} s, got {timestep}; "
            f"try {robot.control_dt / max(substeps, 1):g}"
        )
    mjcf = robot.other_mjcf if other else robot.mjcf
    if mjcf is None:
        raise ValueError(f"robot {robot.name} has no other model")
    model = compile_model(mjcf, timestep)
    check_home_pose(model, robot.name)
    if robot.gains is not None:
        robot.gains.set_on(model)
    body = settings if hasattr(settings, "dry_friction") else config.joystick
    if not body.dry_friction:
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS)
    task = tasks.make_task(task_name(config), settings, robot, model)
    if task.with_parts is None:
        return task, model
    stages = None if whole else [task.params_of(one) for _, one in stage_settings(config)]
    return task.with_parts(stages), model


def make_task(config: Config, whole: bool = False, other: bool = False) -> tuple[Task, Physics]:
    """The config's task and the engine it runs on; `whole` and `other` as for `load_task`.

    Raises:
      UserError: as for `load_task`; also for an unknown engine.
    """
    if (robot := robot_spec(config)).mjcf is None:
        return tasks.make_world(task_name(config), task_settings(config), robot)
    engine = "native" if config.physics == "auto" else config.physics
    if engine != "mjx":  # both call back into Python on a CPU
        xla.inline_dispatch()  # before the task's first array opens JAX's devices
    else:
        xla.spare_workers()  # likewise; an accelerator's host threads lose nothing by it
    task, model = load_task(config, whole, other)
    substeps = round(robot.control_dt / model.opt.timestep)
    threads = config.threads or usable_cores()
    bounds = robot.mjx_bounds
    return task, make_physics(engine, model, substeps, task.fields, threads, task.late, bounds)


def shown_model(config: Config, timestep: float | None = None) -> mujoco.MjModel:
    """The model of the config's robot with all that is only looked at.

    timestep: physics step, s; None keeps the robot's own.
    """
    robot = robot_spec(config)
    return load_task(config)[1] if robot.mjcf is None else robot.load(timestep)


def make_env(config: Config) -> Env:
    """`config.num_envs` environments of the config's task.

    Raises:
      UserError: see `make_task`; also where num_envs is still "auto" (`make_plan` settles it).
    """
    if isinstance(config.num_envs, str):
        raise UserError('num_envs is "auto": use the config of make_plan(config), or give a number')
    task, physics = make_task(config)
    env = make_vector_env(task, physics, config.num_envs, task_stages(config, task))
    return env._replace(action_set=action_set(config))


def task_stages(config: Config, task: Task) -> list[tuple[int, TaskParams]]:
    """The task's parameters over a run: (env step from which they hold, parameters), rising.

    Raises:
      UserError: the curriculum changes settings that the task does not take as parameters.
    """
    stages = stage_settings(config)
    changed = any(settings != stages[0][1] for _, settings in stages)
    if changed and not jax.tree.leaves(task.params):
        raise UserError(
            f'task "{task.name}" has no parameters, so no stage of a curriculum can change them: '
            "give its Task params and params_of, or use --curriculum none"
        )
    return [(at, task.params_of(settings)) for at, settings in stages]


def make_algorithm(config: Config, env: Env) -> Algorithm:
    """The config's algorithm for an environment's sizes.

    Raises:
      UserError: unknown algorithm, or settings it cannot use.
    """
    entry = algorithm_entry(config.algo)
    settings = entry.sized(getattr(config, entry.name), env.num_envs, jax.default_backend())
    return entry.make(settings, config.net, env.spec, config.precision)


def policy_parts(config: Config, task: Task, learner: Learner) -> PolicyParts:
    """What a policy file is made of, of the config's learner.

    Raises:
      UserError: its algorithm has no policy that can be written.
    """
    entry, spec = algorithm_entry(config.algo), spec_of(task, action_set(config))
    settings = entry.sized(getattr(config, entry.name), 1, "cpu")
    algorithm = entry.make(settings, config.net, spec, config.precision)
    if algorithm.parts is None:
        raise UserError(f"a policy of --algo {config.algo} cannot be written into a file")
    return algorithm.parts(learner)


def action_set(config: Config) -> np.ndarray | None:
    """The discrete actions [K, A] of the config; None where actions are continuous.

    All combinations of the motors' values, the last motor's changing fastest.
    """
    if not config.discrete_actions:
        return None
    values = np.linspace(-1.0, 1.0, config.discrete_actions, dtype=np.float32)
    motors = len(robot_spec(config).action_scale)
    grid = np.meshgrid(*[values] * motors, indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=-1)
