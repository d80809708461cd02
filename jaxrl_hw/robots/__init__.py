"""The robots: an MJCF and a `RobotSpec` each. Nothing here loads MuJoCo or JAX until a model is."""

from __future__ import annotations

import difflib
import importlib

from jaxrl_hw.robots.spec import Mirror, RobotSpec

__all__ = ["Mirror", "RobotSpec", "get_robot", "register_robot", "robot_names"]

_SHIPPED = ("cartpole", "g1", "g1_12dof", "go1")
_REGISTERED: dict[str, RobotSpec] = {}


def robot_names() -> tuple[str, ...]:
    """Names that `get_robot` knows, sorted."""
    return tuple(sorted({*_SHIPPED, *_REGISTERED}))


def get_robot(name: str) -> RobotSpec:
    """The robot of that name.

    Raises:
      ValueError: there is none; the message lists those there are and the nearest one.
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in _SHIPPED:
        return importlib.import_module(f"{__name__}.{name}").SPEC
    message = f'unknown robot "{name}": known are {", ".join(robot_names())}'
    near = difflib.get_close_matches(name, robot_names(), n=1, cutoff=0.4)
    raise ValueError(message + (f'; did you mean "{near[0]}"?' if near else ""))


def register_robot(spec: RobotSpec) -> None:
    """Make a robot of your own known by its name.

    Registering the very same spec again does nothing, so a notebook cell can be run twice.

    Raises:
      ValueError: another robot has that name already.
    """
    if spec.name in robot_names() and get_robot(spec.name) != spec:
        raise ValueError(
            f'robot "{spec.name}" exists already: give yours another name '
            f"(taken are {', '.join(robot_names())})"
        )
    _REGISTERED[spec.name] = spec
