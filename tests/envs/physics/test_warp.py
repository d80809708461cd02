"""MuJoCo Warp on its CPU backend moves as the C engine does, in any nesting of vmap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.envs.physics.api import NACONMAX, NJMAX

pytest.importorskip("warp", reason='needs pip install "jaxrl_hw[warp]"')
pytestmark = pytest.mark.slow  # Warp compiles its kernels on first use

N = 4


def starts(engine: Any, seed: int = 0) -> Any:
    """N fresh episodes: each its own masses, frictions and pose."""
    return engine.starts(jax.random.split(jax.random.key(seed), N))


def controls(engine: Any, amplitude: float, steps: int) -> list[jax.Array]:
    """Targets about those that hold the home pose [N, nu], one array per control step."""
    rng = np.random.default_rng(0)
    hold = np.asarray(engine.physics.model.key("home").ctrl)
    noise = amplitude * rng.standard_normal((steps, N, len(hold)))
    return [jnp.asarray(hold + part, jnp.float32) for part in noise]


def test_a_robot_with_its_own_masses_and_motors_moves_alike_on_warp(compiled: Any) -> None:
    native, on_warp = compiled("g1_12dof", "native"), compiled("g1_12dof", "warp")
    start = starts(native)
    state, off, sensed = start.physics, [], []
    for ctrl in controls(native, 0.3, 30):
        got, seen = on_warp.step(start.params, state, ctrl)
        state, wanted = native.step(start.params, state, ctrl)
        off.append(np.abs(np.asarray(got.qpos - state.qpos)).max(axis=1))
        sensed.append(np.abs(np.asarray(seen - wanted)).max(axis=1))
    # measured: median 1e-7, largest 2e-6; forces of some 300 N within 0.01
    assert np.median(off) < 1e-6
    assert np.max(off) < 1e-3
    assert np.median(sensed) < 0.05
    assert np.abs(np.asarray(state.qpos - start.physics.qpos)).max() > 0.1  # it did move


def test_nested_and_single_steps_give_the_rows_of_a_flat_one(compiled: Any) -> None:
    on_warp = compiled("g1_12dof", "warp")
    start, ctrl = starts(on_warp), controls(on_warp, 0.1, 1)[0]
    state, params = start.physics, start.params
    flat = on_warp.step(params, state, ctrl)
    square = jax.tree.map(lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), (params, state, ctrl))
    nested = jax.jit(jax.vmap(jax.vmap(on_warp.physics.step)))(*square)
    chex.assert_trees_all_close(
        flat, jax.tree.map(lambda leaf: leaf.reshape(N, *leaf.shape[2:]), nested), atol=1e-5
    )
    one = jax.tree.map(lambda leaf: leaf[2], (params, state, ctrl))
    alone = jax.jit(on_warp.physics.step)(*one)
    chex.assert_trees_all_close(alone, jax.tree.map(lambda leaf: leaf[2], flat), atol=1e-5)


def test_a_diverged_row_is_not_finite_and_leaves_its_neighbours_alone(compiled: Any) -> None:
    on_warp = compiled("g1_12dof", "warp")
    start, ctrl = starts(on_warp), controls(on_warp, 0.1, 1)[0]
    healthy = on_warp.step(start.params, start.physics, ctrl)
    sick = start.physics._replace(qvel=start.physics.qvel.at[1, 8].set(np.nan))
    state, seen = on_warp.step(start.params, sick, ctrl)
    assert not np.isfinite(state.qvel[1]).all()
    others = np.array([0, 2, 3])
    for got, wanted in zip(jax.tree.leaves((state, seen)), jax.tree.leaves(healthy), strict=True):
        np.testing.assert_allclose(got[others], wanted[others], atol=1e-5)


@pytest.mark.parametrize(
    ("contacts", "rows", "reset", "limit"),
    [(28, 13, [0, 3], NJMAX), (1, 76, [0, 1, 2, 3], NACONMAX)],
)
def test_too_little_room_is_counted_and_resets_no_environment_that_it_does_not_have_to(
    compiled: Any, contacts: int, rows: int, reset: list[int], limit: str
) -> None:
    from jaxrl_hw.envs.physics import warp

    with_room, on_warp = compiled("g1_12dof", "warp"), compiled("g1_12dof", "warp").physics
    start, ctrl = starts(with_room), controls(with_room, 0.1, 1)[0]
    # two stand; those in the air have no contacts, and 12 constraints of the joints' friction
    state = start.physics._replace(qpos=start.physics.qpos.at[1:3, 2].add(2.0))
    wanted = with_room.step(start.params, state, ctrl)
    small = warp.make(
        on_warp.model, on_warp.substeps, on_warp.fields, room=warp.Room(contacts, rows)
    )
    got, seen, overflows = jax.jit(jax.vmap(small.watched_step))(start.params, state, ctrl)
    is_reset = np.isin(np.arange(N), reset)
    for name in (NJMAX, NACONMAX):
        np.testing.assert_array_equal(overflows[name], is_reset & (name == limit))
    assert np.isnan(got.qpos[is_reset]).all()
    for ours, theirs in zip(jax.tree.leaves((got, seen)), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours[~is_reset], theirs[~is_reset], atol=1e-4)


def test_a_training_on_warp_earns_what_one_on_the_c_engine_does(
    train_run: Any, tmp_path: Path
) -> None:
    on_warp = train_run("g1_12dof", tmp_path / "warp", physics="warp")
    native = train_run("g1_12dof", tmp_path / "native", physics="native")
    for name in ("episode_length", "reward/total", "reward/velocity"):
        got, wanted = on_warp.metrics[name][0], native.metrics[name][0]
        assert (got is None) == (wanted is None)
        assert got is None or got == pytest.approx(wanted, rel=1e-3, abs=1e-4)
    assert on_warp.metrics["nonfinite_envs"] == [0, 0]
