"""The servo engine: torques from a PD law at every physics step, actions that come late."""

from __future__ import annotations

import copy

import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.physics import native, servo
from jaxrl_hw.envs.physics.api import state_at
from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.errors import UserError

SUBSTEPS = 10


def engine():
    model = compile_model(get_robot("g1_12dof").mjcf, 0.002)
    return model, servo.make(model, SUBSTEPS, (), threads=1)


def by_hand(model, before, after, delay, steps):
    """The same, as a deployment script does it: one simulation, one physics step at a time."""
    motors = copy.copy(model)
    motors.actuator_gainprm[:] = np.eye(10)[0]
    motors.actuator_biasprm[:] = 0.0
    motors.opt.integrator = mujoco.mjtIntegrator.mjINT_EULER
    data = mujoco.MjData(motors)
    mujoco.mj_resetDataKeyframe(motors, data, model.key("home").id)
    data.ctrl[:] = 0.0
    # gains and limits of the deployment contract: hip pitch, roll, yaw, knee, ankle pitch, roll
    kp = np.array([100, 100, 100, 150, 40, 40] * 2)
    kd = np.array([2, 2, 2, 4, 2, 2] * 2)
    limit = np.array([88, 139, 88, 139, 50, 50] * 2)
    work = 0.0
    for _ in range(steps):
        for k in range(SUBSTEPS):
            target = before if k < delay else after
            speed = data.qvel[6:].copy()
            torque = np.clip((target - data.qpos[7:]) * kp - speed * kd, -limit, limit)
            work += np.abs(torque * speed).sum()
            data.ctrl[:] = torque
            mujoco.mj_step(motors, data)
    return data, work / (steps * SUBSTEPS)


@pytest.mark.parametrize("delay", [0, 3, 10])
def test_torques_are_those_of_a_deployment_script(delay: int) -> None:
    model, physics = engine()
    rng = np.random.default_rng(0)
    home = model.key("home").qpos[7:]
    before, after = home + rng.normal(0, 0.4, 12), home + rng.normal(0, 0.4, 12)
    state, powers = state_at(model), []
    ctrl = jnp.asarray(np.concatenate([before, after, [delay]]), jnp.float32)
    for _ in range(5):
        state, sensed = physics.step({}, state, ctrl)
        powers.append(float(sensed[-servo.EXTRA]))
    data, power = by_hand(model, before, after, delay, steps=5)
    # the row goes through float32 between control steps
    np.testing.assert_allclose(state.qpos, data.qpos, atol=2e-5)
    np.testing.assert_allclose(state.qvel, data.qvel, atol=2e-3)
    assert np.mean(powers) == pytest.approx(power, rel=1e-3)
    assert sensed.shape == (model.nsensordata + servo.EXTRA,)
    assert len(ctrl) == servo.ctrl_width(model)


@pytest.mark.parametrize("name", ["g1", "g1_12dof", "go1", "go2", "h1", "t1"])
def test_every_robot_is_held_as_by_its_own_actuators(name: str) -> None:
    model = compile_model(get_robot(name).mjcf, 0.002)
    hold = np.asarray(model.key("home").ctrl)
    ctrl = jnp.asarray(np.concatenate([hold, hold, [0]]), jnp.float32)
    physics, own = servo.make(model, SUBSTEPS, ()), native.make(model, SUBSTEPS, ())
    state = other = state_at(model)
    for _ in range(10):
        state, _ = physics.step({}, state, ctrl)
        other, _ = own.step({}, other, jnp.asarray(hold, jnp.float32))
    np.testing.assert_allclose(state.qpos, other.qpos, atol=3e-3)
    assert np.abs(state.qvel).max() < 0.1


def test_targets_are_held_to_the_range_that_the_actuators_allow() -> None:
    model = compile_model(get_robot("g1").mjcf, 0.002)
    physics, hold = servo.make(model, SUBSTEPS, ()), np.asarray(model.key("home").ctrl)
    top = np.asarray(model.actuator_ctrlrange)[:, 1]

    def knee(target: float) -> float:
        wanted = hold.copy()
        wanted[3] = target
        ctrl = jnp.asarray(np.concatenate([hold, wanted, [0]]), jnp.float32)
        return float(physics.step({}, state_at(model), ctrl)[0].qpos[7 + 3])

    assert knee(top[3]) == knee(top[3] + 5.0) > knee(top[3] - 1.0)


def test_a_late_action_moves_the_robot_less() -> None:
    model, physics = engine()
    home = np.asarray(model.key("home").ctrl)
    target = home + 0.5

    def knee(delay: float) -> float:
        ctrl = jnp.asarray(np.concatenate([home, target, [delay]]), jnp.float32)
        after, _ = physics.step({}, state_at(model), ctrl)
        return float(after.qpos[10] - model.key("home").qpos[10])

    moved = [knee(delay) for delay in (0, 4, 8, 10)]
    assert moved == sorted(moved, reverse=True)
    assert moved[0] > 0.05
    assert abs(moved[-1]) < 0.005


def test_a_model_without_servos_is_refused() -> None:
    model = compile_model(get_robot("cartpole").mjcf)
    with pytest.raises(UserError, match=f'"{model.actuator(0).name}"'):
        servo.make(model, 1, ())
