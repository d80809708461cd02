"""A policy in MuJoCo's own window, in real time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import mujoco
import numpy as np

from jaxrl_hw.config.factory import shown_model
from jaxrl_hw.config.resolve import robot_spec
from jaxrl_hw.errors import RunError
from jaxrl_hw.evaluation.drive import make_driver
from jaxrl_hw.evaluation.schedule import make_schedule
from jaxrl_hw.evaluation.scoring import Command
from jaxrl_hw.evaluation.trajectory import TrainedPolicy
from jaxrl_hw.evaluation.worlds import CALM
from jaxrl_hw.types import forget, to_policy


def view_run(
    run: TrainedPolicy,
    commands: Sequence[Command] = (),
    seconds: float = 12.0,
    seed: int = 0,
    launch: Callable[[Any, Any], Any] | None = None,
) -> int:
    """Drive a policy in a window until it is closed, repeating the schedule of commands.

    Args:
      commands: share the time of one round; none for `schedule.DEMO`.
      seconds: length of one round.
      launch: opens a window for a model and its data; MuJoCo's passive viewer by default.

    Returns:
      The number of control steps shown.

    Raises:
      RunError: no window can be opened.
    """
    robot = robot_spec(run.config)
    driver = make_driver(run.config, num_envs=1)
    table, texts = make_schedule(commands, run.config.joystick, seconds, driver.control_dt)
    model = shown_model(run.config, driver.timestep)
    data = mujoco.MjData(model)
    state, shown = driver.reset(seed, table[0], CALM), 0
    policy = to_policy(run.policy)
    memory = policy.start(1)
    with (launch or _launch)(model, data) as window:
        if robot.base:
            window.cam.type = mujoco.mjtCamera.mjCAMERA_TRACKING
            window.cam.trackbodyid = model.body(robot.base).id
            window.cam.distance = 3.0
        due = time.monotonic()
        while window.is_running():
            now = shown % len(table)
            action, memory = policy.step(state.envs.obs.policy, memory)
            state, step = driver.step(state, action, table[now])
            memory = forget(memory, step.fell)
            with window.lock():
                data.qpos[:] = np.asarray(step.qpos)[0]
                data.time = shown * driver.control_dt
                mujoco.mj_fwdPosition(model, data)
            _show_text(window, texts[now] if driver.task == "joystick" else robot.name)
            window.sync()
            shown += 1
            # a slow machine shows slow motion: it does not skip
            due = max(due + driver.control_dt, time.monotonic() - driver.control_dt)
            time.sleep(max(0.0, due - time.monotonic()))
    return shown


def _launch(model: Any, data: Any) -> Any:
    try:
        import mujoco.viewer

        return mujoco.viewer.launch_passive(model, data, show_left_ui=False, show_right_ui=False)
    except Exception as error:  # GLFW, a missing display, macOS without mjpython
        hint = "; on macOS start it with mjpython" if sys.platform == "darwin" else ""
        raise RunError(f"cannot open a window: {error}{hint}") from error


def _show_text(window: Any, text: str) -> None:
    if hasattr(window, "set_texts"):
        font, place = mujoco.mjtFontScale.mjFONTSCALE_150, mujoco.mjtGridPos.mjGRID_TOPLEFT
        window.set_texts((font, place, text, ""))
