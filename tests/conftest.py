"""What the tests of several rooms share: engines and environments that are dear to compile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import pytest

from jaxrl_hw.config import Config
from jaxrl_hw.envs.api import Task
from jaxrl_hw.factory import make_task
from jaxrl_hw.physics import Physics

# What `hardware.xla` does for every run on the C engine: a host callback may otherwise wait for the
# very thread it runs on. It has to be said before the first computation of the process.
jax.config.update("jax_cpu_enable_async_dispatch", False)


class Bench(NamedTuple):
    """A task and its engine, with the engine's step vmapped and jitted once for all tests."""

    task: Task
    physics: Physics
    step: Any  # (params, state, ctrl), every leaf [N, ...]; compiled anew for each N
    starts: Any  # (keys [N]) -> Start, N fresh episodes: each its own masses, frictions and pose


@pytest.fixture(scope="module")
def quick_compile() -> Iterator[None]:
    """Let XLA spend less on optimizing: most tests run what they compile a few times only."""
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


@pytest.fixture(scope="session")
def bench() -> Callable[[str, str], Bench]:
    """bench(robot, engine), built when first asked for."""

    @functools.cache
    def make(robot: str, engine: str) -> Bench:
        task, physics = make_task(Config(robot=robot, physics=engine))
        step, starts = jax.jit(jax.vmap(physics.step)), jax.jit(jax.vmap(task.reset))
        return Bench(task, physics, step, starts)

    return make
