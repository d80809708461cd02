"""Keys and a gamepad as commands and pushes. Pure functions, but for `read_gamepad`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.evaluation.scoring import Command

STEP = 0.1
"""m/s or rad/s of a key press."""
DEAD_ZONE = 0.15
"""Share of a stick's way that counts as its rest: worn sticks do not come back to zero."""
HELP = (
    "up, down: faster, slower   left, right: turn   Home, End: to the left, to the right\n"
    "Enter: stand   Insert: push\n"
    "keypad: 8 2 4 6, 7 9, 5, 0   gamepad: sticks, A push, B stand"
)

_AXIS = {  # GLFW's key codes; MuJoCo's window has a use of its own for letters and digits
    **dict.fromkeys((265, 328), (0, 1)),  # up, keypad 8
    **dict.fromkeys((264, 322), (0, -1)),  # down, keypad 2
    **dict.fromkeys((268, 327), (1, 1)),  # Home, keypad 7
    **dict.fromkeys((269, 329), (1, -1)),  # End, keypad 9
    **dict.fromkeys((263, 324), (2, 1)),  # left, keypad 4
    **dict.fromkeys((262, 326), (2, -1)),  # right, keypad 6
}
_STAND = (257, 335, 325)  # Enter, keypad Enter, keypad 5
_PUSH = (260, 320)  # Insert, keypad 0


class Steering(NamedTuple):
    """What the user asks of the robot."""

    command: Command
    """m/s forward, m/s to the left, rad/s to the left."""
    pushes: int = 0
    """Asked for, and not given yet."""


class Pad(NamedTuple):
    """A gamepad's state."""

    left: tuple[float, float]
    """The left stick, right and down positive, -1 to 1."""
    right: tuple[float, float]
    push: bool = False
    """The button A."""
    stand: bool = False
    """The button B."""


def after_key(steering: Steering, key: int, trained: JoystickConfig) -> Steering | None:
    """The steering after a key press; None for a key that means nothing.

    The command stays within what the policy was trained for, and passes through zero.

    key: GLFW's code.
    """
    if key in _PUSH:
        return steering._replace(pushes=steering.pushes + 1)
    if key in _STAND:
        return steering._replace(command=(0.0, 0.0, 0.0))
    if key not in _AXIS:
        return None
    axis, sign = _AXIS[key]
    low, high = (trained.vx, trained.vy, trained.yaw_rate)[axis]
    moved = min(max(round(steering.command[axis] + sign * STEP, 6), low), high)
    command = list(steering.command)
    command[axis] = moved + 0.0  # no -0.0
    return steering._replace(command=(command[0], command[1], command[2]))


def after_pad(
    steering: Steering, before: Pad | None, now: Pad | None, trained: JoystickConfig
) -> Steering | None:
    """The steering after a look at the gamepad; None where its user has touched nothing.

    Full sticks are the fastest commands that the policy was trained for. Sticks that are let go
    make the robot stand.

    before: the pad at the look before; a button counts once per press.
    """
    if now is None:
        return None
    pressed = now.push and not (before and before.push)
    command = _of_sticks(now, trained)
    held = any(command) or (before is not None and any(_of_sticks(before, trained)))
    if now.stand:
        steering, held = steering._replace(command=(0.0, 0.0, 0.0)), False
    if not (pressed or held or now.stand):
        return None
    if held:
        steering = steering._replace(command=command)
    return steering._replace(pushes=steering.pushes + int(pressed))


def read_gamepad() -> Pad | None:
    """The first gamepad's state; None without one. MuJoCo's window has set GLFW up."""
    try:
        import glfw

        states = map(glfw.get_gamepad_state, range(glfw.JOYSTICK_LAST + 1))
        found = next((state for state in states if state), None)
    except Exception:  # GLFW is not set up, or knows no gamepads on this platform
        return None
    if found is None:
        return None
    axes, buttons = list(found.axes), list(found.buttons)
    return Pad((axes[0], axes[1]), (axes[2], axes[3]), bool(buttons[0]), bool(buttons[1]))


def _of_sticks(pad: Pad, trained: JoystickConfig) -> Command:
    """Forward and sideways by the left stick, the turn by the right one."""
    ways = (-pad.left[1], -pad.left[0], -pad.right[0])
    ranges: Sequence[tuple[float, float]] = (trained.vx, trained.vy, trained.yaw_rate)
    x, y, turn = (_scaled(way, low, high) for way, (low, high) in zip(ways, ranges, strict=True))
    return x, y, turn


def _scaled(way: float, low: float, high: float) -> float:
    """A stick's way, -1 to 1, as a command from low to high; 0 in the dead zone."""
    share = max(0.0, min(1.0, (abs(way) - DEAD_ZONE) / (1.0 - DEAD_ZONE)))
    reach = high if way > 0 else -low
    return share * max(0.0, reach) * (1.0 if way > 0 else -1.0) + 0.0
