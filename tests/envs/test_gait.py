"""The gait: which foot swings when, and legs that lift their feet."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks.joystick import gait
from jaxrl_hw.envs.tasks.joystick.layout import legged_layout
from jaxrl_hw.envs.tasks.joystick.params import params_of
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig, observation_sizes

CONFIG = JoystickConfig(swing_height=0.08, swing_fraction=0.45, standing_phase=0.25)


def standing(name: str):
    robot = get_robot(name)
    model = compile_model(robot.mjcf)
    return robot, model, legged_layout(model, robot.feet, robot.soft_limit)


def feet_at(model, body, robot, joints):
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    data.qpos[body.qadr] = joints
    mujoco.mj_kinematics(model, data)
    frames = [data.site(foot).xmat.reshape(3, 3).copy() for foot in robot.feet]
    return np.array([data.site(foot).xpos.copy() for foot in robot.feet]), frames


@pytest.mark.parametrize("name", ["g1_12dof", "g1", "go1", "go2", "h1", "t1"])
def test_a_leg_lifts_its_own_foot_straight_up(name: str) -> None:
    robot, model, body = standing(name)
    before, frames = feet_at(model, body, robot, body.home)
    for i, foot in enumerate(robot.feet):
        offset = gait.lifted_pose(model, foot, body, 0.06)
        after, turned = feet_at(model, body, robot, body.home + offset)
        wanted = np.zeros_like(before)
        wanted[i, 2] = 0.06
        np.testing.assert_allclose(after - before, wanted, atol=1e-3)
        if len(robot.feet) == 2:  # five or six joints a leg: the sole stays level
            np.testing.assert_allclose(turned[i], frames[i], atol=5e-3)
        assert (body.home + offset >= body.lower - 1e-6).all()
        assert (body.home + offset <= body.upper + 1e-6).all()


def test_a_foot_stands_first_and_then_swings_along_half_a_sine() -> None:
    robot = get_robot("g1_12dof")
    phases = jnp.linspace(0.0, 1.0, 200, endpoint=False)
    moving = jax.vmap(lambda p: gait.wanted(params_of(CONFIG), robot, p, jnp.zeros((), bool)))
    stance, height = (np.asarray(x) for x in moving(phases))
    np.testing.assert_allclose(stance.mean(axis=0), 0.55, atol=0.01)
    np.testing.assert_allclose(height.max(axis=0), 0.08, atol=1e-4)
    assert (height[stance] == 0.0).all()
    # the left foot's top is at 1 - 0.45 / 2, the right one's half a cycle away
    assert phases[height[:, 0].argmax()] == pytest.approx(0.775, abs=0.006)
    assert phases[height[:, 1].argmax()] == pytest.approx(0.275, abs=0.006)
    still = jax.vmap(lambda p: gait.wanted(params_of(CONFIG), robot, p, jnp.ones((), bool)))
    stance, height = still(phases)
    assert stance.all()
    assert (height == 0.0).all()


@pytest.mark.slow
def test_the_guide_steps_in_place_where_it_is_to_move_and_stands_where_it_is_not() -> None:
    robot, model, body = standing("g1_12dof")

    sample = jax.vmap(gait.stepping_in_place(params_of(CONFIG), robot, model, body))
    seen, action = sample(jax.random.split(jax.random.key(0), 8000))
    assert seen.shape == (8000, observation_sizes(12, 2)[0])
    # normalized: mean 0, variance 1 in every entry, command and clock as well
    told_to_stand = (seen[:, 6:9] == 0.0).all(axis=1)
    assert 0.14 < told_to_stand.mean() < 0.2
    still = told_to_stand
    np.testing.assert_allclose(seen[still, -2:].var(axis=0), 0.25**2, rtol=0.1)
    np.testing.assert_allclose(seen.mean(axis=0), 0.0, atol=0.1)
    np.testing.assert_allclose(seen[:, :-2].var(axis=0), 1.0, atol=0.1)
    np.testing.assert_allclose(seen[~still, -2:].var(axis=0), 1.0, atol=0.1)
    np.testing.assert_array_equal(action[still], 0.0)
    seen, action = seen[~still], action[~still]
    phase = np.arctan2(seen[:, -2], seen[:, -1]) / (2 * np.pi) % 1.0
    lifted = gait.lifted_pose(model, "left_foot", body, 0.08) / np.array(robot.action_scale)
    top = np.abs(phase - 0.775) < 0.003
    assert top.sum() > 5
    np.testing.assert_allclose(action[top], np.tile(lifted, (top.sum(), 1)), atol=5e-3)
    both_down = (phase > 0.51) & (phase < 0.54)
    np.testing.assert_allclose(action[both_down], 0.0, atol=1e-6)
