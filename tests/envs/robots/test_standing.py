"""The home pose stands, and MJX computes what MuJoCo's C engine computes.

MJX is compiled once per robot: a loop of steps whose length is an argument.
"""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from mujoco import mjx

from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot

LEGGED = ("g1", "g1_12dof", "go1", "go2", "h1", "t1")
IN_MJX = ("g1", "go1")
"""`test_engines.py` holds G1's legs alone against MuJoCo in MJX."""


def at_home(model):
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    return data


@pytest.fixture(scope="module", params=IN_MJX)
def engines(request):
    """(model, mjx_run); mjx_run(data, n) steps a copy of `data` n times in float32."""
    spec = get_robot(request.param)
    model = compile_model(spec.mjcf, spec.timestep)
    mjx_model = mjx.put_model(model)

    @jax.jit
    def run(data, steps):
        return jax.lax.fori_loop(0, steps, lambda _, d: mjx.step(mjx_model, d), data)

    return model, lambda data, steps: run(mjx.put_data(model, data), jnp.int32(steps))


def check_stands(home, qpos, sensordata, model):
    address = model.sensor("upvector").adr[0]
    assert np.linalg.norm(qpos[:3] - home[:3]) < 0.01  # m
    assert sensordata[address + 2] > 0.998
    assert np.abs(qpos[7:] - home[7:]).max() < 0.02  # rad


@pytest.mark.parametrize("robot", LEGGED)
def test_home_stands_for_a_second_in_mujoco(robot):
    spec = get_robot(robot)
    model = compile_model(spec.mjcf, spec.timestep)
    data = at_home(model)
    for _ in range(round(1.0 / model.opt.timestep)):
        mujoco.mj_step(model, data)
    check_stands(model.keyframe("home").qpos, data.qpos, data.sensordata, model)


@pytest.mark.parametrize(("robot", "stands"), [("go1", True), ("go2", False)])
def test_a_quadruped_whose_targets_are_the_home_angles_sags_and_soft_motors_let_it_fall(
    robot: str, stands: bool
) -> None:
    spec = get_robot(robot)
    model = spec.load(0.002)
    for ctrl, holds in ((model.key("home").ctrl, True), (model.key("home").qpos[7:], stands)):
        data = mujoco.MjData(model)
        mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
        data.ctrl[:] = ctrl
        mujoco.mj_step(model, data, nstep=2500)
        assert (data.qpos[2] > spec.fall_height) == holds
    assert data.qpos[2] < spec.base_height - 0.03


@pytest.mark.slow
def test_home_stands_for_a_second_in_mjx(engines):
    model, mjx_run = engines
    data = mjx_run(at_home(model), round(1.0 / model.opt.timestep))
    assert data.qpos.dtype == jnp.float32
    check_stands(
        model.keyframe("home").qpos, np.asarray(data.qpos), np.asarray(data.sensordata), model
    )


@pytest.mark.slow
def test_mjx_agrees_with_mujoco_on_sensors_and_motion(engines):
    """One step from a moving state with some feet in the floor."""
    model, mjx_run = engines
    rng = np.random.default_rng(1)
    data = at_home(model)
    data.qpos[2] -= 0.004
    data.qpos[7:] += rng.uniform(-0.02, 0.02, model.nq - 7)
    data.qvel[:] = rng.uniform(-0.3, 0.3, model.nv)
    copy = mjx_run(data, 1)
    mujoco.mj_step(model, data)
    assert data.ncon > 0
    for i in range(model.nsensor):
        sensor = model.sensor(i)
        span = slice(sensor.adr[0], sensor.adr[0] + sensor.dim[0])
        # Touch sensors give forces of hundreds of N.
        atol = 0.05 if sensor.type[0] == mujoco.mjtSensor.mjSENS_TOUCH else 1e-5
        np.testing.assert_allclose(
            copy.sensordata[span], data.sensordata[span], rtol=1e-3, atol=atol, err_msg=sensor.name
        )
    np.testing.assert_allclose(copy.qpos, data.qpos, atol=1e-5)
    np.testing.assert_allclose(copy.qvel, data.qvel, atol=5e-3)
