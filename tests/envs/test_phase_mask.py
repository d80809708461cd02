"""The phase that a standing robot sees scaled down, and what brings it back."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest

from jaxrl_hw.config.curriculum import Stage
from jaxrl_hw.config.factory import make_algorithm, make_env
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.physics.model import compile_model
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks.joystick.layout import legged_layout
from jaxrl_hw.envs.tasks.joystick.settings import JoystickConfig
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.training.rollout import collect
from jaxrl_hw.training.run import make_policy
from jaxrl_hw.training.train_step import add_steps, init_train_state

SIZE, FASTEST = 0.25, 0.4
PUSHES = np.array(
    [[0.0, 0.0], [0.15, 0.0], [0.0, -0.15], [0.8, 0.0], [-0.8, 0.0], [0.0, 0.8], [0.0, -0.8]]
)
"""m/s, forward and leftward; the first three are too weak to count."""


@pytest.mark.parametrize("name", ["g1_12dof", "g1", "go1", "go2", "h1", "t1"])
def test_feet_are_as_fast_as_their_sensors_say(name: str) -> None:
    robot = get_robot(name)
    model = compile_model(robot.mjcf)
    body = legged_layout(model, robot.feet, robot.soft_limit)
    data = mujoco.MjData(model)
    data.qpos[:] = model.key("home").qpos
    data.qvel[:] = np.random.default_rng(0).standard_normal(model.nv)
    mujoco.mj_forward(model, data)
    seen = np.stack([data.sensordata[adr[:2]] - data.qvel[:2] for adr in body.foot_vel])
    rates = np.concatenate([data.qvel[3:6], data.qvel[body.vadr]])
    reckoned = rates @ body.feet_from_rates
    np.testing.assert_allclose(reckoned, seen.ravel(), atol=1e-5)
    assert np.abs(seen).max() > 0.5


@pytest.fixture(scope="module")
def clocks() -> dict[float, np.ndarray]:
    """How much of the clock robots see that were told to stand and pushed, after 40 ms; by the
    speed from which all of it is shown."""
    quiet = JoystickConfig(noise=0.0, push_speed=0.0, randomize=False, standing_phase=SIZE)
    seen = {}
    for fastest in (0.0, FASTEST):
        task = replace(quiet, standing_phase_speed=fastest)
        env = make_env(Config(robot="g1_12dof", physics="native", num_envs=7, joystick=task))
        mask = env.phase_mask(None)
        assert mask is not None
        state = jax.jit(env.reset)(jax.random.key(0))
        told = state.task._replace(command=jnp.zeros((7, 3)), command_left=jnp.full(7, 1000))
        state, step = state._replace(task=told), jax.jit(env.step)
        for i in range(12):
            if i == 10:  # it has come to rest
                qvel = state.physics.qvel.at[:, :2].add(jnp.asarray(PUSHES))
                state = state._replace(physics=state.physics._replace(qvel=qvel))
            state, _ = step(state, jnp.zeros((7, 12)), jax.random.key(i))
        shown, whole = mask(state.obs.policy), state.obs.policy
        np.testing.assert_array_equal(shown[:, :-2], whole[:, :-2])
        seen[fastest] = np.asarray(shown[:, -2:] / whole[:, -2:])
    return seen


@pytest.mark.slow
def test_a_robot_told_to_stand_sees_a_part_of_the_clock(clocks: dict[float, np.ndarray]) -> None:
    np.testing.assert_allclose(clocks[0.0], SIZE, rtol=1e-5)
    np.testing.assert_allclose(clocks[FASTEST][:3], SIZE, rtol=1e-5)


@pytest.mark.slow
def test_a_push_from_any_side_brings_the_clock_back(clocks: dict[float, np.ndarray]) -> None:
    np.testing.assert_allclose(clocks[FASTEST][3:], 1.0, rtol=1e-5)


def test_who_walks_sees_all_of_the_clock() -> None:
    env = make_env(replace(preset_config("g1_12dof"), physics="native", num_envs=1))
    mask = env.phase_mask(None)
    assert mask is not None
    obs = jnp.zeros((1, env.obs_size)).at[:, -2:].set(1.0)
    assert np.all(np.asarray(mask(obs))[:, -2:] < 0.5)
    walks = obs.at[:, 6].set(2.0 * 0.3)
    np.testing.assert_array_equal(mask(walks), walks)


def test_a_robot_whose_phase_is_never_scaled_has_no_mask() -> None:
    assert make_env(Config(robot="go1", physics="native", num_envs=1)).phase_mask(None) is None


@pytest.mark.slow
def test_a_runs_policy_and_its_file_have_the_mask_of_its_stage() -> None:
    """Fast feet bring the phase back from a stage on: in the run's policy and the exported."""
    turn = 11_059_200
    stage = Stage(turn, {"joystick.standing_phase_speed": 0.45})
    config = replace(preset_config("g1_12dof"), physics="native", num_envs=1, curriculum=(stage,))
    env = make_env(config)
    algorithm = make_algorithm(replace(config, ppo=replace(config.ppo, motion_prior=False)), env)
    state = init_train_state(env, algorithm, seed=0)
    told = np.random.default_rng(0).uniform(-0.3, 0.3, (2, 47)).astype(np.float32)
    told[:, 6:9], told[:, -2:] = 0.0, (0.6, -0.8)
    told[0, :3] = told[0, 21:33] = 0.0  # the first one's feet rest
    acts = {}
    for steps in (turn - 1, turn):
        then = state._replace(env_steps=add_steps(state.env_steps, steps))
        acts[steps] = np.asarray(make_policy(env, algorithm, then)(told))
        np.testing.assert_allclose(portable(config, then)(told), acts[steps], atol=1e-6)
    off = np.abs(acts[turn] - acts[turn - 1]).max(axis=-1)
    assert off[0] == 0.0
    assert off[1] > 1e-4


@pytest.mark.slow
def test_a_policy_acts_on_masked_observations_and_its_batch_keeps_them_whole() -> None:
    still = JoystickConfig(noise=0.0, push_speed=0.0, zero_command=1.0, standing_phase=SIZE)
    base = Config(robot="g1_12dof", physics="native", num_envs=4, joystick=still)
    config = replace(base, ppo=replace(base.ppo, unroll=3, motion_prior=False))
    env = make_env(config)
    algorithm = make_algorithm(config, env)
    state = init_train_state(env, algorithm, seed=0)
    _, batch, _ = collect(env, algorithm, state.learner, state.env_state, state.key)
    assert batch.phase_mask is not None
    for phase in (batch.obs.policy[..., -2:], batch.next_obs.policy[..., -2:]):
        np.testing.assert_allclose(np.linalg.norm(phase, axis=-1), 1.0, rtol=1e-5)
    masked = batch.phase_mask(batch.obs.policy)
    np.testing.assert_allclose(np.linalg.norm(masked[..., -2:], axis=-1), SIZE, rtol=1e-5)
    acted = batch.extras["mean"]
    np.testing.assert_array_equal(algorithm.policy(state.learner, masked)[0], acted)
    assert np.any(algorithm.policy(state.learner, batch.obs.policy)[0] != acted)
