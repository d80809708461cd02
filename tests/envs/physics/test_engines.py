"""MJX and the C engine compute the same motion, row by row, whatever the number of threads."""

from __future__ import annotations

import copy
import functools
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw.config.factory import make_task
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.physics import make_physics
from jaxrl_hw.envs.physics.api import nominal_params, sensor_slices, sensordata_at, state_at
from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.errors import UserError

N = 4


def starts(engine: Any, seed: int = 0) -> Any:
    """N fresh episodes: each its own masses, frictions and pose."""
    return engine.starts(jax.random.split(jax.random.key(seed), N))


def controls(engine: Any, amplitude: float, steps: int, seed: int = 0) -> list[jax.Array]:
    """Targets about those that hold the home pose [N, nu], one array per control step."""
    rng = np.random.default_rng(seed)
    hold = np.asarray(engine.physics.model.key("home").ctrl)
    noise = amplitude * rng.standard_normal((steps, N, len(hold)))
    return [jnp.asarray(hold + part, jnp.float32) for part in noise]


def worst(a: Any, b: Any) -> float:
    return float(np.abs(np.asarray(a) - np.asarray(b)).max())


def rows(tree: Any, keep: list[int]) -> Any:
    return jax.tree.map(lambda leaf: leaf[np.array(keep)], tree)


@pytest.mark.slow
def test_cartpole_moves_alike_on_both_engines(compiled: Any) -> None:
    on_mjx, native = compiled("cartpole", "mjx"), compiled("cartpole", "native")
    start = starts(native)
    a = b = start.physics
    for ctrl in controls(native, 0.3, 20):
        a, seen_a = native.step(start.params, a, ctrl)
        b, seen_b = on_mjx.step(start.params, b, ctrl)
    # Measured after 20 steps: 1e-6 (rad) and 3e-6 (rad/s). No contact, no iteration: all of it is
    # float32 against float64.
    assert worst(a.qpos, b.qpos) < 5e-6
    assert worst(a.qvel, b.qvel) < 2e-5
    assert worst(seen_a, seen_b) < 5e-6
    assert worst(a.qpos, start.physics.qpos) > 0.1  # it did move
    np.testing.assert_allclose(a.time, 20 * 0.02, rtol=1e-5)


class Parting(NamedTuple):
    """How far MJX is from the C engine over 20 control steps; worst entries, [20, N] or [N]."""

    qpos: np.ndarray  # after a single step from the C engine's state
    qvel: np.ndarray
    sensors: np.ndarray  # all but the foot forces
    forces: np.ndarray  # N
    path_qpos: np.ndarray  # each on its own for all 20 steps
    path_qvel: np.ndarray
    loaded: float  # N, the largest foot force seen


def parting(native: Any, mjx_step: Any, amplitude: float, seed: int = 0) -> Parting:
    start = starts(native, seed)
    slices = sensor_slices(native.physics.model)
    force = np.r_[slices["left_foot_force"], slices["right_foot_force"]]
    rest = np.setdiff1d(np.arange(native.physics.model.nsensordata), force)

    def gap(x: Any, y: Any) -> np.ndarray:
        return np.abs(np.asarray(x) - np.asarray(y)).max(axis=1)

    a = b = start.physics
    single, loaded = [], 0.0
    for ctrl in controls(native, amplitude, 20, seed):
        alone, seen_b = mjx_step(start.params, a, ctrl)
        a, seen_a = native.step(start.params, a, ctrl)
        b, _ = mjx_step(start.params, b, ctrl)
        single.append(
            (
                gap(a.qpos, alone.qpos),
                gap(a.qvel, alone.qvel),
                gap(seen_a[:, rest], seen_b[:, rest]),
                gap(seen_a[:, force], seen_b[:, force]),
            )
        )
        loaded = max(loaded, float(seen_a[:, force].max()))
    return Parting(*np.moveaxis(single, 0, 1), gap(a.qpos, b.qpos), gap(a.qvel, b.qvel), loaded)


@pytest.mark.slow
@pytest.mark.parametrize("amplitude", [0.03, 0.1])
def test_a_legged_robot_moves_alike_on_both_engines(compiled: Any, amplitude: float) -> None:
    # masses, torso offsets, joint and floor frictions differ from environment to environment
    apart = parting(compiled("g1_12dof", "native"), compiled("g1_12dof", "mjx").step, amplitude)
    assert apart.loaded > 150.0  # N: it stood on its feet for part of it
    # Most steps change no contact: medians of 2e-7 and 2e-5, float32's own roundings.
    assert np.median(apart.qpos) < 1e-6
    assert np.median(apart.qvel) < 1e-4
    # Where a foot lands, a stiff contact amplifies float32 against float64: measured over four
    # seeds up to 9e-5, 7e-3, 6e-4 and 0.3 N of some 300 N wherever MJX's solver gets to the end
    # within its bounds, which it does in 99 of 100 steps.
    assert np.quantile(apart.qpos, 0.95) < 4e-4
    assert np.quantile(apart.qvel, 0.95) < 3e-2
    assert np.quantile(apart.sensors, 0.95) < 3e-3
    assert np.quantile(apart.forces, 0.95) < 1.6
    # Where it does not, or where a foot just touches in one engine and just not in the other, a
    # step may differ by 0.05 rad.
    assert apart.qpos.max() < 0.25
    if amplitude == 0.03:
        # With targets that move little that is rare: all steps within 9e-4 and 0.034, and after
        # 0.4 s on their own (20 steps) 5e-3 and 0.03 apart.
        assert apart.qpos.max() < 5e-3
        assert apart.qvel.max() < 0.17
        assert np.median(apart.path_qpos) < 2e-4
        assert apart.path_qpos.max() < 0.025
        assert apart.path_qvel.max() < 0.15


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "mjx"])
def test_a_single_step_equals_its_row_among_many(compiled: Any, engine: str) -> None:
    many = compiled("cartpole", engine)
    start, ctrl = starts(many), controls(many, 0.5, 1)[0]
    batched = many.step(start.params, start.physics, ctrl)
    one = jax.tree.map(lambda leaf: leaf[2], (start.params, start.physics, ctrl))
    alone = jax.jit(many.physics.step)(*one)
    if engine == "native":
        chex.assert_trees_all_equal(alone, jax.tree.map(lambda leaf: leaf[2], batched))
    else:  # XLA may order sums otherwise for one row than for many: a few float32 roundings
        for x, y in zip(jax.tree.leaves(alone), jax.tree.leaves(batched), strict=True):
            np.testing.assert_allclose(x, y[2], rtol=1e-5, atol=1e-5)


def test_nested_vmaps_give_the_rows_of_a_flat_one(compiled: Any) -> None:
    native = compiled("cartpole", "native")
    start, ctrl = starts(native), controls(native, 0.5, 1)[0]
    flat = native.step(start.params, start.physics, ctrl)
    square = jax.tree.map(
        lambda leaf: leaf.reshape(2, 2, *leaf.shape[1:]), (start.params, start.physics, ctrl)
    )
    nested = jax.vmap(jax.vmap(native.physics.step))(*square)
    chex.assert_trees_all_equal(
        flat, jax.tree.map(lambda leaf: leaf.reshape(N, *leaf.shape[2:]), nested)
    )


def test_the_number_of_threads_changes_no_bit(compiled: Any) -> None:
    native = compiled("g1_12dof", "native")
    start, after = starts(native, 1), []
    for threads in (1, 2):
        model, fields = native.physics.model, native.task.fields
        physics = make_physics("native", model, native.physics.substeps, fields, threads)
        step, state = jax.jit(jax.vmap(physics.step)), start.physics
        for ctrl in controls(native, 0.2, 10):
            state, seen = step(start.params, state, ctrl)
        after.append((state, seen))
    chex.assert_trees_all_equal(*after)
    assert worst(after[0][0].qpos, start.physics.qpos) > 0.05


def test_a_step_is_a_function_of_its_arguments_alone(compiled: Any) -> None:
    native = compiled("g1_12dof", "native")
    first, other = starts(native, 0), starts(native, 1)
    ctrl = controls(native, 0.1, 1)[0]
    before = native.step(first.params, first.physics, ctrl)
    native.step(other.params, other.physics, -ctrl)  # other masses, another state, other targets
    chex.assert_trees_all_equal(before, native.step(first.params, first.physics, ctrl))


def test_threads_that_share_an_engine_do_not_mix_their_rows(compiled: Any) -> None:
    engine = compiled("g1_12dof", "native")
    ctrl = controls(engine, 0.3, 1)[0]
    given = [starts(engine, seed) for seed in range(2)]

    def forward(start: Any) -> np.ndarray:
        return np.asarray(engine.step(start.params, start.physics, ctrl)[0].qpos)

    alone = [forward(start) for start in given]
    with ThreadPoolExecutor(2) as threads:
        together = [list(threads.map(forward, given)) for _ in range(40)]
    for pair in together:
        for got, wanted in zip(pair, alone, strict=True):
            np.testing.assert_array_equal(got, wanted)


@pytest.mark.slow
def test_a_servo_at_its_force_limit_is_not_damped_implicitly(compiled: Any) -> None:
    """Fast joints and far targets: some servos are clipped, and the engines agree on all."""
    native, on_mjx = compiled("g1_12dof", "native"), compiled("g1_12dof", "mjx")
    start = starts(native)
    rng = np.random.default_rng(0)
    lifted = start.physics.qpos.at[:, 2].add(0.5)  # in the air: no contact, no solver
    fast = jnp.asarray(12.0 * rng.standard_normal(start.physics.qvel[:, 6:].shape), jnp.float32)
    state = start.physics._replace(qpos=lifted, qvel=start.physics.qvel.at[:, 6:].set(fast))
    ctrl = controls(native, 1.5, 1)[0]
    model = native.physics.model
    reach = np.asarray(ctrl - lifted[:, 7:]) * model.actuator_gainprm[:, 0]
    force = reach + np.asarray(fast) * model.actuator_biasprm[:, 2]
    share = np.mean(np.abs(force) > model.actuator_forcerange[:, 1])
    assert 0.2 < share < 0.9
    wanted, _ = native.step(start.params, state, ctrl)
    got, _ = on_mjx.step(start.params, state, ctrl)
    assert worst(got.qvel, wanted.qvel) < 0.05  # rad/s


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["native", "mjx"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_diverged_row_is_not_finite_and_leaves_its_neighbours_alone(
    compiled: Any, engine: str, value: float
) -> None:
    many = compiled("cartpole", engine)
    start, ctrl = starts(many), controls(many, 0.5, 1)[0]
    healthy = many.step(start.params, start.physics, ctrl)
    sick = start.physics._replace(qpos=start.physics.qpos.at[1, 1].set(value))
    state, seen = many.step(start.params, sick, ctrl)
    assert not np.isfinite(state.qpos[1]).all()
    chex.assert_trees_all_equal(rows((state, seen), [0, 2, 3]), rows(healthy, [0, 2, 3]))
    # and nothing of it is left behind for the next call
    chex.assert_trees_all_equal(many.step(start.params, start.physics, ctrl), healthy)


def test_a_legged_robot_that_diverged_leaves_nothing_behind(compiled: Any) -> None:
    native = compiled("g1_12dof", "native")
    start, ctrl = starts(native), controls(native, 0.1, 1)[0]
    healthy = native.step(start.params, start.physics, ctrl)
    sick = start.physics._replace(qvel=start.physics.qvel.at[1, 8].set(np.nan))
    state, seen = native.step(start.params, sick, ctrl)
    assert not np.isfinite(state.qvel[1]).all()
    chex.assert_trees_all_equal(rows((state, seen), [0, 2, 3]), rows(healthy, [0, 2, 3]))
    chex.assert_trees_all_equal(native.step(start.params, start.physics, ctrl), healthy)


def test_each_environment_moves_by_its_own_parameters(compiled: Any) -> None:
    native = compiled("g1_12dof", "native")
    model = native.physics.model
    nominal = nominal_params(model, native.task.fields)
    params = jax.tree.map(lambda leaf: jnp.stack([leaf] * N), nominal)
    heavy = params["body_mass"].at[1, model.body("pelvis").id].add(5.0)
    stiff = params["dof_frictionloss"].at[2].multiply(20.0)
    slow = params["dof_armature"].at[3].multiply(20.0)
    params = {**params, "body_mass": heavy, "dof_frictionloss": stiff, "dof_armature": slow}
    state = jax.tree.map(lambda leaf: jnp.stack([leaf] * N), state_at(model))
    targets = [np.asarray(ctrl[0]) for ctrl in controls(native, 0.1, 5)]
    for target in targets:  # the same ones for all four
        state, _ = native.step(params, state, jnp.stack([jnp.asarray(target)] * N))
    for other in (1, 2, 3):
        assert worst(state.qpos[0], state.qpos[other]) > 1e-4
    # and for one of them written out: the C engine itself with a pelvis 5 kg heavier
    lone = copy.copy(model)
    lone.body_mass[model.body("pelvis").id] += 5.0
    data = mujoco.MjData(lone)
    mujoco.mj_resetDataKeyframe(lone, data, 0)
    for target in targets:
        data.ctrl[:] = target
        mujoco.mj_step(lone, data, nstep=native.physics.substeps)
    # the state goes through float32 between control steps; contacts amplify that a little
    np.testing.assert_allclose(state.qpos[1], data.qpos, atol=1e-4)


def test_a_slippery_floor_lets_the_feet_slide(compiled: Any) -> None:
    native = compiled("g1_12dof", "native")
    model = native.physics.model
    params = jax.tree.map(
        lambda leaf: jnp.stack([leaf] * N), nominal_params(model, native.task.fields)
    )
    floor = model.geom("floor").id
    friction = params["geom_friction"].at[:, floor, 0].set(jnp.array([0.02, 1.0, 0.02, 1.0]))
    state = jax.tree.map(lambda leaf: jnp.stack([leaf] * N), state_at(model))
    state = state._replace(qvel=state.qvel.at[:, 0].set(0.5))  # pushed forwards
    slices = sensor_slices(model)
    hold = jnp.tile(jnp.asarray(model.key("home").ctrl, jnp.float32), (N, 1))
    for _ in range(5):
        state, seen = native.step({**params, "geom_friction": friction}, state, hold)
    speed = np.abs(np.asarray(seen)[:, slices["left_foot_vel"]][:, 0])
    assert speed[0] > 5 * speed[1]
    np.testing.assert_array_equal(speed[0], speed[2])


@pytest.mark.parametrize("robot", ["cartpole", "g1_12dof", "g1", "go1"])
def test_dropping_what_is_only_looked_at_changes_no_motion(robot: str) -> None:
    spec = get_robot(robot)
    full = compile_model(spec.mjcf, spec.timestep, visuals=True)
    lean = compile_model(spec.mjcf, spec.timestep)
    assert lean.ngeom < full.ngeom
    assert lean.opt.timestep == full.opt.timestep == spec.timestep
    np.testing.assert_array_equal(lean.body_mass, full.body_mass)
    ends = []
    for model in (full, lean):
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, 0)
        rng = np.random.default_rng(0)
        for _ in range(100):
            data.ctrl[:] = model.key("home").ctrl + 0.2 * rng.standard_normal(model.nu)
            mujoco.mj_step(model, data)
        ends.append(np.concatenate([data.qpos, data.qvel, data.sensordata]))
    np.testing.assert_array_equal(*ends)


def test_the_state_and_sensors_of_home_are_those_of_the_keyframe(compiled: Any) -> None:
    model = compiled("g1_12dof", "native").physics.model
    state, slices = state_at(model), sensor_slices(model)
    np.testing.assert_allclose(state.qpos, model.key("home").qpos, rtol=1e-6)
    assert not np.any(state.qvel)
    assert float(state.time) == 0.0
    seen = sensordata_at(model)
    np.testing.assert_allclose(seen[slices["upvector"]], [0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(seen[slices["gyro"]], 0, atol=1e-9)
    assert sum(s.stop - s.start for s in slices.values()) == model.nsensordata


def test_a_control_step_lasts_its_substeps() -> None:
    for timestep, substeps in [(0.01, 2), (0.005, 4)]:
        config = replace(Config(robot="cartpole", physics="native"), timestep=timestep)
        task, physics = make_task(config)
        assert physics.substeps == substeps
        assert physics.control_dt == pytest.approx(0.02)
        start = jax.jit(functools.partial(task.reset, task.params))(jax.random.key(0))
        state, _ = physics.step(start.params, start.physics, jnp.zeros(1))
        assert float(state.time) == pytest.approx(0.02)


def test_an_unknown_engine_and_an_odd_timestep_are_refused_with_numbers() -> None:
    model = compile_model(get_robot("cartpole").mjcf)
    with pytest.raises(UserError, match=r'"bullet".*mjx.*native'):
        make_physics("bullet", model, 1)
    with pytest.raises(UserError, match=r"--timestep .*0\.02.*0\.003"):
        make_task(Config(robot="cartpole", physics="native", timestep=0.003))


@pytest.mark.slow
def test_the_engine_comes_without_a_word() -> None:
    # without Warp MJX prints two lines that it is missing; a module that is None does not import
    hidden = "import sys; sys.modules['warp'] = None; "
    said = []
    for code in ("from mujoco import mjx", "from jaxrl_hw.envs.physics import mjx, warp"):
        command = [sys.executable, "-c", hidden + code]
        said.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert "warp" in said[0]
    assert said[1] == ""
