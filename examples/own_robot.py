"""Your own robot and your own task, trained with the library's PPO: a hopper that hops forward.

    python examples/own_robot.py --iterations 60

A robot is an MJCF file (`own_robot.xml`, beside this file) with a keyframe "home". A task is three
small functions about ONE robot; the library runs them for all environments at once:

    reset(key)                 how an episode begins
    control(state, action)     what the policy's action means for the motors
    outcome(state, ...)        what the robot sees, what it is paid for, and whether it is over

Rules: no side effects, jax.numpy instead of numpy, `jnp.where` instead of `if` on array values.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from jaxrl_hw import (
    Config,
    ModelParams,
    NetConfig,
    Observation,
    Outcome,
    PhysState,
    PPOConfig,
    Start,
    Task,
    compile_model,
    init_train_state,
    make_algorithm,
    make_physics,
    make_train_step,
    make_vector_env,
    sensor_slices,
    state_at,
)

MJCF = Path(__file__).resolve().parent / "own_robot.xml"
SUBSTEPS = 4  # physics steps of 0.004 s per action: the policy acts every 0.016 s
EPISODE_STEPS = 600
FALL_HEIGHT, FALL_PITCH = 0.7, 0.6  # m, rad


class HopperState(NamedTuple):
    """What the task itself remembers between two actions; here only the last one."""

    action: Array  # [3]


def make_hopper(model: Any) -> Task:
    """The task for the compiled model."""
    home = state_at(model)  # the keyframe "home", at rest
    foot = sensor_slices(model)["foot_force"]

    def reset(key: Array) -> Start:
        # a little different each time, or the policy learns one start by heart
        key_pose, key_speed = jax.random.split(key)
        shape = home.qpos.shape
        offset = jax.random.uniform(key_pose, shape, minval=-0.02, maxval=0.02)
        qvel = jax.random.uniform(key_speed, shape, minval=-0.05, maxval=0.05)
        physics = home._replace(qpos=home.qpos + offset, qvel=qvel)
        state = HopperState(jnp.zeros(3))
        # the {} are this episode's own model values, for domain randomization: none here
        return Start(physics, {}, state, observe(state, physics, jnp.zeros(1)))

    def control(state: HopperState, action: Array) -> Array:
        return 0.5 * action  # the model cuts it to -1 .. 1 of each motor's torque

    def outcome(
        state: HopperState,
        params: ModelParams,
        physics: PhysState,
        sensordata: Array,
        action: Array,
        key: Array,
    ) -> Outcome:
        speed = physics.qvel[0]
        height, pitch = physics.qpos[1], physics.qpos[2]
        fell = (height < FALL_HEIGHT) | (jnp.abs(pitch) > FALL_PITCH)
        # each term is logged under its own name; the reward is their sum
        rewards = {
            "forward": jnp.clip(speed, -1.0, 2.0),
            "alive": jnp.where(fell, 0.0, 0.5),
            "effort": -0.02 * jnp.sum(action**2),
        }
        state = HopperState(action)
        force = sensordata[foot]
        figures = {"speed": speed, "in_the_air": (force[0] < 1.0).astype(jnp.float32)}
        return Outcome(physics, state, observe(state, physics, force), rewards, fell, figures)

    return Task(
        name="hopper",
        obs_size=15,
        critic_size=15,
        action_size=3,
        episode_steps=EPISODE_STEPS,
        fields=(),  # names of MjModel arrays that reset() randomizes
        symmetry=None,  # a mirror image of the robot, where it has one
        reset=reset,
        control=control,
        outcome=outcome,
    )


def observe(state: HopperState, physics: PhysState, force: Array) -> Observation:
    """All but the distance travelled, at sizes near 1. Policy and critic see the same here."""
    grounded = (force > 1.0).astype(jnp.float32)
    entries = jnp.concatenate([physics.qpos[1:], 0.2 * physics.qvel, grounded, state.action])
    return Observation(entries, entries)


def train(iterations: int, num_envs: int, seed: int = 0) -> list[float]:
    """Train, and return the mean forward speed of every iteration, m/s."""
    model = compile_model(MJCF)
    physics = make_physics("native", model, SUBSTEPS)  # "mjx" runs it on a GPU
    env = make_vector_env(make_hopper(model), physics, num_envs)

    config = Config(
        net=NetConfig(policy=(64, 64), value=(64, 64), init_std=0.8),
        ppo=PPOConfig(unroll=32, minibatches=4, gamma=0.99, symmetry="none"),
    )
    algorithm = make_algorithm(config, env)  # reads config.ppo, config.net and the env's sizes
    state = init_train_state(env, algorithm, seed)
    step = make_train_step(env, algorithm)

    speeds = []
    for iteration in range(1, iterations + 1):
        state, metrics = step(state)
        speeds.append(float(metrics["speed"]))
        print(
            f"iteration {iteration}: return {float(metrics['episode_return']):.1f}, "
            f"length {float(metrics['episode_length']):.0f}, speed {speeds[-1]:.2f} m/s"
        )
    return speeds


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--num-envs", type=int, default=64)
    asked = parser.parse_args()
    train(asked.iterations, asked.num_envs)
