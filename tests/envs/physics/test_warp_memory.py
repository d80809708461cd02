"""The scratch space that is computed for Warp's kernels is what they take, on its CPU backend."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import pytest

from jaxrl_hw.envs.physics import Physics, make_physics
from jaxrl_hw.envs.physics.api import state_at
from jaxrl_hw.planning.warp_scratch import warp_scratch

wp = pytest.importorskip("warp", reason='needs pip install "jaxrl_hw[warp]"')
pytestmark = pytest.mark.slow  # Warp compiles its kernels on first use

N = 24
MESH = "<asset><mesh name='tip' vertex='0 0 0 .1 0 0 0 .1 0 0 0 .1'/></asset>"


@pytest.fixture
def taken() -> Iterator[list[tuple[int, int]]]:
    """What Warp allocates, by its address and bytes, and what it gives back, as negative bytes; in
    order."""
    wp.init()
    device, log = wp.get_device("cpu"), []
    usual = device.default_allocator

    class Counting(type(usual)):  # type: ignore[misc]
        def allocate(self, size_in_bytes: int) -> Any:
            ptr = super().allocate(size_in_bytes)
            log.append((ptr, size_in_bytes))
            return ptr

        def deallocate(self, ptr: Any, size_in_bytes: int) -> None:
            log.append((ptr, -size_in_bytes))
            super().deallocate(ptr, size_in_bytes)

    device.default_allocator = Counting(device)
    yield log
    device.default_allocator = usual


def bodies(*geoms: str) -> mujoco.MjModel:
    """Free bodies of one geom each above a plane."""
    free = (
        f"<body pos='0 0 {1 + at}'><freejoint/><geom {geom} mass='1'/></body>"
        for at, geom in enumerate(geoms)
    )
    world = f"<geom type='plane' size='1 1 1'/>{''.join(free)}"
    key = "<keyframe><key name='home'/></keyframe>"
    return mujoco.MjModel.from_xml_string(
        f"<mujoco>{MESH}<worldbody>{world}</worldbody>{key}</mujoco>"
    )


def most_at_once(engine: Physics, taken: list[tuple[int, int]]) -> int:
    """Bytes that a step of N environments has at once at most, per environment.

    What an earlier test's engine gives back meanwhile does not count.
    """
    nu = engine.model.nu
    states = jax.tree.map(lambda leaf: jnp.stack([leaf] * N), state_at(engine.model))
    step = jax.jit(jax.vmap(lambda state, ctrl: engine.step({}, state, ctrl)))
    for _ in range(2):  # at first it loads its kernels
        taken.clear()
        jax.block_until_ready(step(states, jnp.zeros((N, nu))))
    since = set()
    own = []
    for ptr, size in taken:
        if size > 0:
            since.add(ptr)
        if ptr in since:
            own.append(size)
        if size < 0:
            since.discard(ptr)
    return max(itertools.accumulate(own)) // N


BOX, CYLINDER = "type='box' size='.1 .1 .1'", "type='cylinder' size='.1 .1'"
CAPSULE, TIP = "type='capsule' size='.1 .1'", "type='mesh' mesh='tip'"


@pytest.mark.parametrize(
    "geoms",
    [(BOX, BOX), (BOX, TIP), (TIP, TIP, CAPSULE), (CYLINDER, CYLINDER), (CAPSULE, BOX)],
    ids=["boxes", "box and mesh", "meshes", "cylinders", "formulas"],
)
def test_contacts_that_are_searched_take_what_is_computed(
    geoms: tuple[str, ...], taken: list[tuple[int, int]]
) -> None:
    engine = make_physics("warp", bodies(*geoms), 1)
    assert most_at_once(engine, taken) == pytest.approx(engine.host_bytes[1], rel=0.05)


@pytest.mark.parametrize(("robot", "dofs"), [("g1", 35), ("g1_12dof", 18), ("go1", 18)])
def test_the_solver_of_a_robot_takes_what_is_computed(
    robot: str, dofs: int, compiled: Any, taken: list[tuple[int, int]]
) -> None:
    engine = make_physics("warp", compiled(robot, "native").physics.model, 1)
    assert most_at_once(engine, taken) == pytest.approx(engine.host_bytes[1], rel=0.05)
    # a plan knows no more than the degrees of freedom before the model is loaded
    assert warp_scratch(dofs) == pytest.approx(engine.host_bytes[1], rel=0.2)
