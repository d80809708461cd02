"""Tasks: what a robot sees, what it is rewarded for, when an episode ends, what varies.

Naming tasks here imports neither jax nor mujoco; making one does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jaxrl_hw.errors import UserError, unknown

if TYPE_CHECKING:
    from jaxrl_hw.envs.tasks.api import Task

TaskMaker = Callable[[Any, Any, Any], "Task"]
"""(the task's settings, RobotSpec, compiled MjModel) -> Task"""

_REGISTERED: dict[str, TaskMaker] = {}


def _shipped(name: str) -> TaskMaker:
    def make(settings: Any, robot: Any, model: Any) -> Task:
        module = importlib.import_module(f"{__name__}.{name}.task")
        task: Task = module.make(settings, robot, model)
        return task

    return make


_SHIPPED = {name: _shipped(name) for name in ("cartpole", "joystick")}


def task_names() -> tuple[str, ...]:
    """Names that `make_task` knows, sorted."""
    return tuple(sorted({*_SHIPPED, *_REGISTERED}))


def make_task(name: str, settings: Any, robot: Any, model: Any) -> Task:
    """The task of that name for a robot.

    Raises:
      UserError: unknown task, or a model that the task cannot use.
    """
    maker = _REGISTERED.get(name) or _SHIPPED.get(name)
    if maker is None:
        raise unknown("task", name, task_names())
    return maker(settings, robot, model)


def task_sizes(name: str, robot: Any) -> tuple[int, int, int]:
    """Numbers in the policy's observation, in the critic's, and in one environment's state.

    Each shipped task's settings module works them out from the RobotSpec; a registered task is
    estimated as a joystick task.
    """
    known = name if name in _SHIPPED else "joystick"
    sizes: tuple[int, int, int] = importlib.import_module(f"{__name__}.{known}.settings").sizes(
        robot
    )
    return sizes


def register_task(name: str, make: TaskMaker) -> None:
    """Make a task of your own known by its name, to `fit`, `evaluate` and every other function.

    Registering the same function again does nothing, so a notebook cell can be run twice.

    Raises:
      UserError: another task has that name already.
    """
    if name in _SHIPPED or _REGISTERED.get(name, make) is not make:
        taken = ", ".join(task_names())
        raise UserError(f'task "{name}" exists already: give yours another name (taken: {taken})')
    _REGISTERED[name] = make
