"""Tasks: what a robot sees, how it is rewarded, when an episode ends, what is randomized.

A task of the package is a folder with settings.py (its ENTRY) and task.py (its `make`). Naming and
checking tasks imports neither jax nor mujoco; making one does.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxrl_hw.errors import UserError, unknown

if TYPE_CHECKING:
    from jaxrl_hw.envs.physics.api import Physics
    from jaxrl_hw.envs.tasks.api import Task

TaskMaker = Callable[[Any, Any, Any], "Task"]
"""(the task's settings, RobotSpec, compiled MjModel) -> Task; a task without a settings class takes
the whole Config in their place"""


class Facts(NamedTuple):
    """The sizes of another library's environment."""

    obs: int  # entries of the policy's observation
    critic: int  # entries of the critic's
    action: int  # entries of an action
    state: int  # numbers in one environment's state
    control_dt: float  # s


@dataclass(frozen=True)
class TaskEntry:
    """What is known of a task before it is made."""

    name: str
    """Also its group of settings in `Config`."""
    settings: type | None = None
    """A frozen dataclass with a default for every field, or None where it has no settings."""
    suits: Callable[[Any], bool] = lambda robot: True
    """Whether a RobotSpec can do it."""
    sizes: Callable[[Any, Any], tuple[int, int, int]] | None = None
    """(RobotSpec, its settings or None for their usual size) -> what `task_sizes` gives."""
    more_numbers: Callable[[Sequence[Any], Any], int] = lambda stages, robot: 0
    """(its settings in every stage of a run, RobotSpec) -> numbers in one environment's state
    beside those of `sizes`."""
    check: Callable[[Any, Any], None] = lambda settings, robot: None
    """Raises UserError for settings that cannot be used with a RobotSpec."""
    make: TaskMaker | None = None
    """None: the function `make` of the module `envs.tasks.NAME.task`."""
    has_motion: bool | None = None
    """Whether it has an open-loop motion for a policy to start from; None: not known before it is
    made."""
    facts: Callable[[str, Any], Facts] | None = None
    """(environment, the task's settings or None for the usual ones) -> its sizes, of a task whose
    robots are the environments of another library. They bring their own physics: the task's module
    has `make_world` in place of `make`."""
    factorizes: Callable[[Any], bool] = lambda settings: True
    """Whether such an environment's step may factorize matrices by jaxlib, with its settings: then
    XLA's pool on a CPU needs spare threads (`hardware.xla.spare_workers`)."""
    configure: Callable[[Any, Any], Any] = lambda settings, robot: robot
    """(its settings, RobotSpec) -> the RobotSpec that they make of it."""


_REGISTERED: dict[str, TaskEntry] = {}


@cache
def _shipped() -> dict[str, TaskEntry]:
    folders = sorted(path.parent.name for path in Path(__file__).parent.glob("*/settings.py"))
    return {name: importlib.import_module(f"{__name__}.{name}.settings").ENTRY for name in folders}


def task_names() -> tuple[str, ...]:
    """Names of all tasks, sorted."""
    return tuple(sorted({*_shipped(), *_REGISTERED}))


def task_entry(name: str) -> TaskEntry:
    """The task of that name.

    Raises:
      UserError: there is none; the message lists those there are and the nearest one.
    """
    entry = _REGISTERED.get(name) or _shipped().get(name)
    if entry is None:
        raise unknown("task", name, task_names())
    return entry


def make_task(name: str, settings: Any, robot: Any, model: Any) -> Task:
    """The task of that name for a RobotSpec and its compiled MjModel.

    settings: of its settings class, or a Config where it has none.

    Raises:
      UserError: unknown task, or a model that the task cannot use.
    """
    entry = task_entry(name)
    make = entry.make or importlib.import_module(f"{__name__}.{name}.task").make
    task: Task = make(settings, robot, model)
    return task


def make_world(name: str, settings: Any, robot: Any) -> tuple[Task, Physics]:
    """The task of that name with its own physics, for the environment that a RobotSpec stands for.

    Raises:
      UserError: the environment is not there, or gives what a policy cannot see.
    """
    world: tuple[Task, Physics]
    world = importlib.import_module(f"{__name__}.{name}.task").make_world(settings, robot)
    return world


def task_sizes(name: str, robot: Any, settings: Any = None) -> tuple[int, int, int]:
    """Numbers in the policy's observation, in the critic's, and in one environment's state.

    Those of a task that does not say are estimated as a joystick task's.

    settings: the task's; None where only the policy's observation counts.

    Raises:
      UserError: unknown task.
    """
    sizes = task_entry(name).sizes
    if sizes is None:
        sizes, settings = _shipped()["joystick"].sizes, None
    assert sizes is not None
    return sizes(robot, settings)


def register_task(name: str, make: TaskMaker, settings: type | None = None) -> None:
    """Make a task of your own known by its name to every function and command.

    Registering the same function again does nothing, so a notebook cell can be run twice.

    Args:
      name: with settings of its own an identifier: they become the group of that name in
        config.json, and flags such as `--NAME.height`.
      make: (settings, RobotSpec, compiled MjModel) -> Task; without a settings class it takes the
        whole Config in place of settings.
      settings: a frozen dataclass with a default for every field (`jaxrl_hw.types.setting` gives
        bounds and units).

    Raises:
      UserError: another task has that name already, or it is no identifier.
    """
    if settings is not None and not name.isidentifier():
        raise UserError(
            f'a task with settings needs an identifier as its name, got "{name}"; try my_task'
        )
    known = _REGISTERED.get(name)
    if name in _shipped() or (known is not None and known.make is not make):
        taken = ", ".join(task_names())
        raise UserError(f'task "{name}" exists already: give yours another name (taken: {taken})')
    _REGISTERED[name] = TaskEntry(name, settings, make=make)
