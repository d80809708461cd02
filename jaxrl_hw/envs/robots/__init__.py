"""The robots: an MJCF and a `RobotSpec` each. Nothing here loads MuJoCo or JAX until a model is."""

from __future__ import annotations

import importlib

from jaxrl_hw.envs.robots.spec import Mirror, RobotSpec
from jaxrl_hw.errors import UserError, unknown

__all__ = ["Mirror", "RobotSpec", "get_robot", "register_robot", "robot_names"]

_SHIPPED = ("cartpole", "g1", "g1_12dof", "go1")
_REGISTERED: dict[str, RobotSpec] = {}


def robot_names() -> tuple[str, ...]:
    """Names that `get_robot` knows, sorted."""
    return tuple(sorted({*_SHIPPED, *_REGISTERED}))


def get_robot(name: str) -> RobotSpec:
    """The robot of that name.

    Raises:
      UserError: there is none; the message lists those there are and the nearest one.
    """
    if name in _REGISTERED:
        return _REGISTERED[name]
    if name in _SHIPPED:
        return importlib.import_module(f"{__name__}.{name}").SPEC
    raise unknown("robot", name, robot_names())


def register_robot(spec: RobotSpec) -> None:
    """Make a robot of your own known by its name.

    Registering the very same spec again does nothing, so a notebook cell can be run twice.

    Raises:
      UserError: another robot has that name already.
    """
    if spec.name in robot_names() and get_robot(spec.name) != spec:
        raise UserError(
            f'robot "{spec.name}" exists already: give yours another name '
            f"(taken are {', '.join(robot_names())})"
        )
    _REGISTERED[spec.name] = spec
