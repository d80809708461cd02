"""MuJoCo's warnings are silent while a pool steps, and are heard again after the last one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.physics import native
from jaxrl_hw.envs.physics.api import state_at
from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot

PATIENCE_S = 60.0


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What MuJoCo warns of, by a handler that this test's program has set."""
    found: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(found.append)
    yield found
    mujoco.set_mju_user_warning(before)


def diverging(model: mujoco.MjModel, meanwhile: Callable[[], None]) -> Callable[[], np.ndarray]:
    """A control step whose simulation diverges, which MuJoCo warns of, after `meanwhile`."""

    def advance(pool: Any, ctrl: np.ndarray) -> None:
        meanwhile()
        pool.step(nstep=1)

    engine = native.make(model, 1, (), threads=1, loop=native.Loop(advance))
    start = state_at(model)
    sick = start._replace(qpos=start.qpos.at[0].set(jnp.nan))
    step = jax.jit(engine.step)
    return lambda: np.asarray(step({}, sick, jnp.zeros(model.nu))[0].qpos)


def warn(model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    data.qpos[0] = np.nan
    mujoco.mj_step(model, data)


def test_two_threads_that_step_at_once_are_silent_and_give_the_handler_back(
    heard: list[str],
) -> None:
    model = compile_model(get_robot("cartpole").mjcf)
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def wait(event: threading.Event) -> None:
        assert event.wait(PATIENCE_S)

    def in_first() -> None:
        first_is_in.set()
        wait(second_is_in)

    def in_second() -> None:
        second_is_in.set()
        wait(first_is_out)  # what the first one gave back would be heard here

    first, second = diverging(model, in_first), diverging(model, in_second)
    warn(model)
    each = len(heard)
    assert each > 0
    with ThreadPoolExecutor(2) as threads:
        one = threads.submit(first)
        wait(first_is_in)
        other = threads.submit(second)
        ended = [one.result(PATIENCE_S)]
        first_is_out.set()
        ended.append(other.result(PATIENCE_S))
    assert not any(np.isfinite(qpos).all() for qpos in ended)
    assert len(heard) == each
    warn(model)
    assert len(heard) == 2 * each
