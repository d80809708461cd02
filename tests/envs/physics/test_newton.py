"""MJX's constraint solver finds the C engine's accelerations, with all kinds of constraints."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from mujoco import mjx

from jaxrl_hw.envs.physics import make_physics, newton
from jaxrl_hw.envs.physics.api import nominal_params, state_at

N = 16
BOUNDS = newton.Bounds(iterations=8, trips=3, tolerance=1e-8)
LINKAGE = """
<mujoco>
  <option timestep="0.004" integrator="implicitfast" {cone}/>
  <worldbody>
    <geom type="plane" size="5 5 .1"/>
    <body pos="0 0 .6">
      <joint name="a" axis="0 1 0" range="-40 40" limited="true" frictionloss=".6" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".03" mass="1"/>
      <body pos=".3 0 0">
        <joint name="b" axis="0 1 0" frictionloss=".2" damping=".1"/>
        <geom type="capsule" fromto="0 0 0 .25 0 0" size=".03" mass=".6"/>
      </body>
    </body>
    <body pos=".1 .5 .13">
      <freejoint/>
      <geom type="sphere" size=".12" mass=".8"/>
    </body>
    <body pos="-.5 0 .6">
      <joint name="c" axis="0 1 0" damping=".1"/>
      <geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" mass=".5"/>
    </body>
  </worldbody>
  <equality><joint joint1="c" joint2="a" polycoef="0 1 0 0 0"/></equality>
  <actuator><motor joint="a" gear="4"/></actuator>
  <keyframe><key name="home" qpos="0 0 .1 .5 .13 1 0 0 0 0"/></keyframe>
</mujoco>
"""
"""Two linked arms, one of which copies the other, limits, dry friction, and a ball on the floor."""


def linkage(cone: str = "") -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(LINKAGE.format(cone=cone))


def states(model: mujoco.MjModel, seed: int = 0) -> list[mujoco.MjData]:
    """States on the way of a model that is moved about, each with its last accelerations."""
    rng, data, found = np.random.default_rng(seed), mujoco.MjData(model), []
    for _ in range(N):
        data.qvel += 0.5 * rng.standard_normal(model.nv)
        data.ctrl = rng.uniform(-1.0, 1.0, model.nu)
        mujoco.mj_step(model, data, 5)
        found.append(data.__copy__())
    return found


def problems(model: mujoco.MjModel, found: list[mujoco.MjData]) -> tuple[Any, Any]:
    """The solver's problems of some states, and its starting points; N rows."""
    shared = mjx.put_model(model, impl="jax")

    def one(qpos: Any, qvel: Any, ctrl: Any, warm: Any) -> Any:
        data = mjx.make_data(model, impl="jax").replace(qpos=qpos, qvel=qvel, ctrl=ctrl)
        data = mjx.fwd_velocity(shared, mjx.fwd_position(shared, data))
        data = mjx.fwd_acceleration(shared, mjx.fwd_actuation(shared, data))
        problem = newton.problem_of(mjx.full_m(shared, data), data)
        return problem, newton.start_of(problem, warm)

    names = ("qpos", "qvel", "ctrl", "qacc_warmstart")
    batch = (jnp.stack([jnp.asarray(getattr(d, name)) for d in found]) for name in names)
    problem, start = jax.jit(jax.vmap(one))(*batch)
    return problem, start


def accelerations(model: mujoco.MjModel, found: list[mujoco.MjData]) -> np.ndarray:
    """Those of the C engine, [N, nv]."""
    for data in found:
        mujoco.mj_forward(model, data)
    return np.stack([data.qacc for data in found])


def test_the_accelerations_are_those_of_the_c_engine() -> None:
    model = linkage()
    found = states(model)
    problem, start = problems(model, found)
    solved = jax.jit(jax.vmap(lambda p, s: newton.until_at_rest(p, s, BOUNDS)))(problem, start)
    wanted = accelerations(model, found)
    assert np.abs(wanted).max() > 20.0  # rad/s^2, m/s^2
    np.testing.assert_allclose(solved.qacc, wanted, rtol=2e-3, atol=2e-2)
    lone = BOUNDS._replace(lone=newton.lone_rows(model, mjx.make_data(model, impl="jax")))
    assert lone.lone == (1, 4)  # after the equality: two of dry friction, one of a limit
    sparser = jax.jit(jax.vmap(lambda p, s: newton.until_at_rest(p, s, lone)))(problem, start)
    np.testing.assert_allclose(sparser.qacc, wanted, rtol=2e-3, atol=2e-2)
    apart = np.abs(np.asarray(problem.smooth) - wanted).max(axis=1)
    assert (apart > 1.0).mean() > 0.5  # most states have constraints that push


def test_an_accelerator_s_loop_ends_where_a_cpu_s_does() -> None:
    model = linkage()
    problem, start = problems(model, states(model, seed=1))
    ends = jax.jit(jax.vmap(lambda p, s: newton.until_at_rest(p, s, BOUNDS)))(problem, start)
    always = jax.jit(jax.vmap(lambda p, s: newton.every_iteration(p, s, BOUNDS)))(problem, start)
    np.testing.assert_allclose(always.qacc, ends.qacc, rtol=1e-5, atol=1e-4)


def test_more_iterations_lower_the_error() -> None:
    model = linkage()
    found = states(model, seed=2)
    problem, _ = problems(model, found)
    start = jax.vmap(newton.start_of)(problem, problem.smooth)  # no warm start
    wanted = accelerations(model, found)
    errors = []
    for iterations in (1, 2, 8):
        bounds = BOUNDS._replace(iterations=iterations)
        solve = jax.jit(jax.vmap(lambda p, s, b=bounds: newton.until_at_rest(p, s, b)))
        errors.append(np.abs(solve(problem, start).qacc - wanted).max())
    assert errors[0] > 10.0 * errors[2]
    assert errors[0] >= errors[1] >= errors[2]


@pytest.mark.slow
@pytest.mark.parametrize("cone", ["", 'cone="elliptic"', 'solver="CG"', 'integrator="Euler"'])
def test_any_model_moves_as_in_the_c_engine(cone: str) -> None:
    """Whatever solver it asks for; elliptic cones are left to MJX's own."""
    model = linkage(cone.replace('integrator="Euler"', ""))
    if "Euler" in cone:
        model.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    engines = [make_physics(name, model, 2) for name in ("mjx", "native")]
    on_mjx, native = (jax.jit(jax.vmap(e.step, in_axes=(None, 0, 0))) for e in engines)
    rng = np.random.default_rng(3)
    at = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (N, *leaf.shape)), state_at(model))
    params, worst = nominal_params(model, ()), 0.0
    for _ in range(40):
        ctrl = jnp.asarray(rng.uniform(-1.0, 1.0, (N, model.nu)), jnp.float32)
        seen, _ = on_mjx(params, at, ctrl)
        at, _ = native(params, at, ctrl)
        worst = max(worst, float(jnp.abs(seen.qpos - at.qpos).max()))
    assert worst < 2e-4  # m, rad; after 8 ms each time
    assert float(jnp.abs(at.qpos - state_at(model).qpos).max()) > 0.3  # it did move
