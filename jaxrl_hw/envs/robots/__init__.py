"""The robots: a folder each with an MJCF, spec.py (SPEC) and presets.py (PRESETS).

A robot of your own is a module that calls `register_robot` or defines ROBOT. An environment of
another library counts as a robot too: "brax:ant" is the environment ant of the task brax. Nothing
here loads MuJoCo or JAX until a model is.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from jaxrl_hw.envs.robots import shared_presets
from jaxrl_hw.envs.robots.spec import Mirror, RobotSpec
from jaxrl_hw.envs.tasks import task_entry, task_names
from jaxrl_hw.errors import UserError, suggest, unknown

__all__ = [
    "Mirror",
    "RobotSpec",
    "environment_entry",
    "get_robot",
    "is_environment",
    "load_robot",
    "register_robot",
    "robot_names",
]

ENTRY_POINTS = "jaxrl_hw.robots"
Presets = Mapping[str, Mapping[str, Any]]
"""Preset name -> settings by dotted key; "all" holds what is common to all presets. The name of an
algorithm holds what a run with it changes, "sac, fast" what its preset changes then."""


@dataclass(frozen=True)
class RobotEntry:
    """A robot, and what training it needs beside its spec."""

    spec: RobotSpec
    presets: Presets
    settings: type | None = None
    configure: Callable[[Any, RobotSpec], RobotSpec] = lambda settings, spec: spec
    """(its own settings, its spec) -> the spec to train with"""


_REGISTERED: dict[str, RobotEntry] = {}
_LOADED: dict[str, str] = {}
"""Modules and entry points named on the command line, and the robot that each has registered."""


@cache
def _shipped() -> tuple[str, ...]:
    return tuple(sorted(path.parent.name for path in Path(__file__).parent.glob("*/spec.py")))


def robot_names() -> tuple[str, ...]:
    """Names that `get_robot` knows, sorted."""
    return tuple(sorted({*_shipped(), *_REGISTERED}))


def get_robot(name: str) -> RobotSpec:
    """The spec of the robot of that name; see `robot_entry`."""
    return robot_entry(name).spec


def robot_entry(name: str) -> RobotEntry:
    """The robot of that name.

    Raises:
      UserError: there is none, with those there are and the nearest one; or the name is of a module
        or entry point that `load_robot` has not loaded.
    """
    if is_environment(name):
        return environment_entry(name)
    if _is_unloaded(name):
        if name not in sys.modules:
            raise UserError(
                f'robot "{name}" is a module, and no command imports what only files name: '
                f"give --robot {name}, or import it first"
            )
        load_robot(name)
    name = _LOADED.get(name, name)
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in _shipped():
        return _shipped_entry(name)
    raise unknown("robot", name, robot_names())


def is_environment(name: str) -> bool:
    """Whether a name is of another library's environment, LIBRARY:NAME."""
    return ":" in name


@cache
def environment_entry(name: str) -> RobotEntry:
    """An environment as a robot, whose every action goes from -1 to 1.

    Raises:
      UserError: another form of name, no such environment, or its library is not installed.
    """
    library, _, own = name.partition(":")
    libraries = [task for task in task_names() if task_entry(task).facts is not None]
    if library not in libraries:
        allowed = " or ".join(f"{each}:NAME" for each in libraries)
        near = suggest(name, [f"{each}:{own}" if own else each for each in libraries])
        raise UserError(
            f'--env must be {allowed}, got "{name}"{near}; '
            "the library's own robots are --robot NAME"
        )
    facts = task_entry(library).facts
    assert facts is not None
    found = facts(own, None)
    spec = RobotSpec(
        name=name,
        mjcf=None,
        task=library,
        action_scale=(1.0,) * found.action,
        timestep=found.control_dt,
        control_dt=found.control_dt,
    )
    return RobotEntry(spec, shared_presets.ENVIRONMENT)


def _is_unloaded(name: str) -> bool:
    """Whether a name is of code of the user's own that `load_robot` has not loaded."""
    if name in _LOADED or name in robot_names():
        return False
    return "." in name or name in _entry_points() or _in_current_folder(name)


@cache
def _shipped_entry(name: str) -> RobotEntry:
    spec, presets = (importlib.import_module(f"{__name__}.{name}.{p}") for p in ("spec", "presets"))
    return RobotEntry(spec.SPEC, presets.PRESETS)


def register_robot(
    spec: RobotSpec,
    settings: type | None = None,
    presets: Presets | None = None,
    configure: Callable[[Any, RobotSpec], RobotSpec] = RobotEntry.configure,
) -> None:
    """Make a robot of your own known by its name.

    Registering the very same spec again does nothing, so a notebook cell can be run twice.

    Args:
      spec: the robot.
      settings: a frozen dataclass with a default for every field: the group of the robot's name in
        config.json, and flags such as `--NAME.leg-length`.
      presets: settings by preset name ("all", "fast", "optimized", "best") and dotted key; None
        takes those of its kind (`shared_presets`).
      configure: (settings, spec) -> the spec to train with, where the settings change the robot.

    Raises:
      UserError: another robot has that name already, or a name with settings is no identifier.
    """
    if settings is not None and not spec.name.isidentifier():
        raise UserError(f'a robot with settings needs an identifier as its name, got "{spec.name}"')
    if spec.name in robot_names() and get_robot(spec.name) != spec:
        raise UserError(
            f'robot "{spec.name}" exists already: give yours another name '
            f"(taken are {', '.join(robot_names())})"
        )
    presets = shared_presets.of_kind(spec.task, len(spec.feet)) if presets is None else presets
    _REGISTERED[spec.name] = RobotEntry(spec, presets, settings, configure)


def load_robot(name: str) -> RobotSpec:
    """The robot that a command line names; the only way in which a name imports code.

    Args:
      name: a robot's name, a module (`my_package.my_robot`, the current folder's included), or a
        name of the entry point group `jaxrl_hw.robots`. Module and entry point register the robot,
        or define ROBOT.

    Raises:
      UserError: no such robot, or its code cannot be imported.
    """
    if name in _LOADED or name in robot_names() or is_environment(name):
        return get_robot(name)
    entry = _entry_points().get(name)
    if not _is_unloaded(name):
        raise unknown("robot", name, {*robot_names(), *_entry_points()})
    before = set(_REGISTERED)
    try:
        found = _import(name) if entry is None else entry.load()
    except UserError:
        raise
    except Exception as error:  # whatever the user's code raises
        where = f"{type(error).__name__}: {error}"
        raise UserError(f"--robot {name} cannot be imported: {where}") from error
    spec = found if isinstance(found, RobotSpec) else getattr(found, "ROBOT", None)
    if isinstance(spec, RobotSpec):
        if spec.name not in _REGISTERED:
            register_robot(spec)
        _LOADED[name] = spec.name
    elif len(new := set(_REGISTERED) - before) == 1:
        _LOADED[name] = new.pop()
    else:
        raise UserError(
            f"--robot {name} must define ROBOT, a RobotSpec, or register one robot; "
            f"it registers {len(new)}"
        )
    return get_robot(name)


def _import(name: str) -> Any:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return importlib.import_module(name)


def _entry_points() -> dict[str, Any]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


def _in_current_folder(name: str) -> bool:
    return name.isidentifier() and any(
        path.is_file() for path in (Path(f"{name}.py"), Path(name, "__init__.py"))
    )
