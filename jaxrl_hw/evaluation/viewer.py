"""A policy in MuJoCo's own window, in real time, steered by keys or a gamepad."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np

from jaxrl_hw.config.factory import shown_model
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.errors import RunError
from jaxrl_hw.evaluation.drive import kicked, make_driver
from jaxrl_hw.evaluation.schedule import describe, make_schedule
from jaxrl_hw.evaluation.scoring import Command
from jaxrl_hw.evaluation.steering import HELP, Pad, Steering, after_key, after_pad, read_gamepad
from jaxrl_hw.evaluation.trajectory import TrainedPolicy
from jaxrl_hw.evaluation.worlds import Conditions
from jaxrl_hw.types import forget, to_policy

PUSH_SPEED = 1.0
"""m/s, of a key press where no other speed is asked for."""

Launch = Callable[[Any, Any, Callable[[int], None]], Any]
"""Opens a window for a model and its data; the function gets the code of each key."""


def view_run(
    run: TrainedPolicy,
    commands: Sequence[Command] = (),
    seconds: float = 12.0,
    seed: int = 0,
    push: float = 0.0,
    launch: Launch | None = None,
    read_pad: Callable[[], Pad | None] = read_gamepad,
) -> int:
    """Drive a policy in a window until it is closed.

    It repeats the schedule of commands until the user steers (`steering.HELP`).

    Args:
      commands: share the time of one round; none for `schedule.DEMO`.
      seconds: length of one round.
      seed: of the start and of the pushes' directions.
      push: m/s: pushes of that size every 2.5 s, and of a key press; 0: those of keys alone.
      launch: MuJoCo's passive viewer by default.
      read_pad: the gamepad's state.

    Returns the number of control steps shown. Raises RunError where no window can be opened.
    """
    robot = robot_spec(run.config)
    driver = make_driver(run.config, num_envs=1)
    table, texts = make_schedule(commands, run.config.joystick, seconds, driver.control_dt)
    model = shown_model(run.config, driver.timestep)
    data = mujoco.MjData(model)
    state = driver.reset(seed, table[0], Conditions(push_speed=push))
    policy, shown = to_policy(run.policy), 0
    memory, directions = policy.start(1), np.random.default_rng(seed)
    hands = _Hands(run.config.joystick, read_pad) if driver.task == "joystick" else None
    press = hands.press if hands else lambda key: None
    with (launch or _launch)(model, data, press) as window:
        if robot.base:
            _follow(window, model.body(robot.base).id)
        due = time.monotonic()
        while window.is_running():
            now = shown % len(table)
            command, text = table[now], texts[now] if hands else robot.name
            if hands and (asked := hands.ask(table[now][0])):
                is_push = list(asked.command) == table[now][0].tolist()
                text = text if is_push else _in_words(asked.command)
                command = np.array([asked.command], np.float32)
                state = kicked(state, _kick(directions, asked.pushes, push or PUSH_SPEED))
            action, memory = policy.step(state.envs.obs.policy, memory)
            state, step = driver.step(state, action, command)
            memory = forget(memory, step.fell)
            with window.lock():
                data.qpos[:] = np.asarray(step.qpos)[0]
                data.time = shown * driver.control_dt
                mujoco.mj_fwdPosition(model, data)
            _show_text(window, text, HELP if hands else "")
            window.sync()
            shown += 1
            # a slow machine shows slow motion: it does not skip
            due = max(due + driver.control_dt, time.monotonic() - driver.control_dt)
            time.sleep(max(0.0, due - time.monotonic()))
    return shown


class _Hands:
    """The keys and the gamepad of one window."""

    def __init__(self, trained: JoystickConfig, read_pad: Callable[[], Pad | None]) -> None:
        self._trained, self._read_pad = trained, read_pad
        self._keys: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._pad: Pad | None = None
        self._steering: Steering | None = None
        """None until the user steers: a push alone is no steering."""

    def press(self, key: int) -> None:
        """Take a key press; called from the window's thread."""
        self._keys.put(key)

    def ask(self, scheduled: Sequence[float]) -> Steering | None:
        """What the user asks for in this step; None where the schedule holds.

        scheduled: the schedule's command [3], from which the first key press starts.
        """
        x, y, turn = (float(value) for value in scheduled)
        steering = self._steering or Steering((x, y, turn))
        holds = self._steering is not None
        while not self._keys.empty():
            if moved := after_key(steering, self._keys.get(), self._trained):
                holds = holds or moved.pushes == steering.pushes  # a push alone is no command
                steering = moved
        before, self._pad = self._pad, self._read_pad()
        if moved := after_pad(steering, before, self._pad, self._trained):
            holds = holds or moved.pushes == steering.pushes or moved.command != steering.command
            steering = moved
        if holds:
            self._steering = steering._replace(pushes=0)
        return steering if holds or steering.pushes else None


def _follow(window: Any, body: int) -> None:
    window.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
    window.cam.trackbodyid = body
    window.cam.distance = 3.0


def _kick(directions: np.random.Generator, count: int, speed: float) -> np.ndarray:
    """[1, 2] m/s: the sum of so many pushes, each in a random direction."""
    angles = directions.uniform(0.0, 2.0 * np.pi, count)
    return speed * np.array([[np.cos(angles).sum(), np.sin(angles).sum()]])


def _in_words(command: Command) -> str:
    return f"{describe(command)}: {command[0]:.1f} {command[1]:.1f} {command[2]:.1f}"


def _launch(model: Any, data: Any, press: Callable[[int], None]) -> Any:
    try:
        import mujoco.viewer

        return mujoco.viewer.launch_passive(
            model, data, key_callback=press, show_left_ui=False, show_right_ui=False
        )
    except Exception as error:  # GLFW, a missing display, macOS without mjpython
        hint = "; on macOS start it with mjpython" if sys.platform == "darwin" else ""
        raise RunError(f"cannot open a window: {error}{hint}") from error


def _show_text(window: Any, text: str, small: str) -> None:
    if hasattr(window, "set_texts"):
        fonts, places = mujoco.mjtFontScale, mujoco.mjtGridPos
        texts = [(fonts.mjFONTSCALE_150, places.mjGRID_TOPLEFT, text, "")]
        if small:
            texts.append((fonts.mjFONTSCALE_100, places.mjGRID_BOTTOMLEFT, small, ""))
        window.set_texts(texts)
