"""Your own robot and your own task: a hopper that hops forward, trained by the ordinary commands.

    python -m jaxrl_hw.train --robot examples.own_robot --num-envs 64 --iterations 60
    python -m jaxrl_hw.evaluate --robot examples.own_robot --run-dir runs/hopper-hop-ppo-0

`--robot` names this module (from inside this folder: own_robot); play, evaluate and export need it
too, because no command runs code that only a run's files name. The task's settings are flags as all
others: `--hop.speed 1.5`, `--hopper.strength 0.4`.

A robot is an MJCF file (`own_robot.xml`, beside this file) with a keyframe "home", and a RobotSpec.
A task is three small functions about ONE robot; the library runs them for all environments at once:

    reset(params, key)                 how an episode begins
    control(params, state, action)     what the policy's action means for the motors
    outcome(params, state, ...)        what the robot sees, its reward, and whether it is over

Rules: no side effects, jax.numpy instead of numpy, `jnp.where` instead of `if` on array values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jaxrl_hw import RobotSpec, register_robot, register_task
from jaxrl_hw.types import setting

if TYPE_CHECKING:
    from jaxrl_hw import Observation, Task

ROBOT = RobotSpec(
    name="hopper",
    mjcf=Path(__file__).resolve().parent / "own_robot.xml",
    task="hop",
    action_scale=(0.5, 0.5, 0.5),  # the model clips ctrl to -1 .. 1 of each motor's torque
    timestep=0.004,
    control_dt=0.016,
)
PRESETS = {
    "all": {
        "net.policy": (64, 64),
        "net.value": (64, 64),
        "ppo.minibatch_size": 512,
        "ppo.gamma": 0.99,
    },
    "fast": {"timesteps": 120_000},
    "optimized": {"timesteps": 400_000},
    "best": {"timesteps": 1_200_000},
}
FALL_HEIGHT, FALL_PITCH = 0.7, 0.6  # m, rad


@dataclass(frozen=True)
class HopperConfig:
    """Settings of the robot."""

    strength: float = setting(0.5, above=0.0, at_most=1.0)
    """Share of a motor's torque per unit of action."""


@dataclass(frozen=True)
class HopConfig:
    """Settings of the task. A stage of a curriculum may change those with stage=True."""

    episode_s: float = setting(9.6, unit="s", at_least=0.1)
    """Time limit of an episode."""
    speed: float = setting(2.0, unit="m/s", above=0.0, stage=True)
    """Hopping faster than this is not rewarded any more."""
    effort: float = setting(-0.02, stage=True)
    """Reward per squared action."""


class HopParams(NamedTuple):
    """The settings that a stage may change, as the task's functions get them."""

    speed: Any
    effort: Any


def params_of(settings: HopConfig) -> HopParams:
    return HopParams(settings.speed, settings.effort)


class HopState(NamedTuple):
    """What the task itself remembers between two actions; here only the last one."""

    action: Any  # [3]


def observe(state: HopState, physics: Any, force: Any) -> Observation:
    """All but the distance travelled, at sizes near 1. Policy and critic see the same here."""
    import jax.numpy as jnp

    from jaxrl_hw import Observation

    grounded = (force > 1.0).astype(jnp.float32)
    entries = jnp.concatenate([physics.qpos[1:], 0.2 * physics.qvel, grounded, state.action])
    return Observation(entries, entries)


def make_hop(settings: HopConfig, robot: RobotSpec, model: Any) -> Task:
    """The task for the compiled model."""
    # here, not at the top: a command names robots and tasks before it loads jax
    import jax
    import jax.numpy as jnp

    from jaxrl_hw import Outcome, Start, Task, sensor_slices, state_at

    home = state_at(model)  # the keyframe "home", at rest
    foot = sensor_slices(model)["foot_force"]

    def reset(params: HopParams, key: Any) -> Start:
        # a little different each time, or the policy learns one start by heart
        key_pose, key_speed = jax.random.split(key)
        shape = home.qpos.shape
        offset = jax.random.uniform(key_pose, shape, minval=-0.02, maxval=0.02)
        qvel = jax.random.uniform(key_speed, shape, minval=-0.05, maxval=0.05)
        physics = home._replace(qpos=home.qpos + offset, qvel=qvel)
        state = HopState(jnp.zeros(3))
        # the {} are this episode's own model values, for domain randomization: none here
        return Start(physics, {}, state, observe(state, physics, jnp.zeros(1)))

    def control(params: HopParams, state: HopState, action: Any) -> Any:
        return jnp.asarray(robot.action_scale) * action

    def outcome(
        params: HopParams, state: HopState, model_params, physics, sensordata, action, key
    ) -> Outcome:
        speed = physics.qvel[0]
        height, pitch = physics.qpos[1], physics.qpos[2]
        fell = (height < FALL_HEIGHT) | (jnp.abs(pitch) > FALL_PITCH)
        # each term is logged under its own name; the reward is their sum
        rewards = {
            "forward": jnp.clip(speed, -1.0, params.speed),
            "alive": jnp.where(fell, 0.0, 0.5),
            "effort": params.effort * jnp.sum(action**2),
        }
        state = HopState(action)
        force = sensordata[foot]
        figures = {"speed": speed, "in_the_air": (force[0] < 1.0).astype(jnp.float32)}
        return Outcome(physics, state, observe(state, physics, force), rewards, fell, figures)

    return Task(
        name="hop",
        obs_size=15,
        critic_size=15,
        action_size=3,
        episode_steps=round(settings.episode_s / robot.control_dt),
        fields=(),  # names of MjModel arrays that reset() randomizes
        symmetry=None,  # a mirror image of the robot, where it has one
        reset=reset,
        control=control,
        outcome=outcome,
        params=params_of(settings),
        params_of=params_of,
    )


def as_strong_as(settings: HopperConfig, spec: RobotSpec) -> RobotSpec:
    """The robot as its settings make it."""
    return replace(spec, action_scale=(settings.strength,) * 3)


register_task("hop", make_hop, HopConfig)
register_robot(ROBOT, HopperConfig, PRESETS, as_strong_as)
