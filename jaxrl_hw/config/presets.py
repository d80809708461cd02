"""Whole configurations by robot and by how long one wants to wait.

fast       a short goal: a first look, minutes on a laptop
optimized  the default: what trains best per minute on the hardware most people have
best       wide networks, longer rollouts, one epoch more and a long goal, ended early where the
           return no longer grows: for an accelerator (`plan --gpu` says which it suits)
"""

from __future__ import annotations

from dataclasses import replace

from jaxrl_hw.algos.networks.settings import NetConfig
from jaxrl_hw.algos.ppo_settings import PPOConfig
from jaxrl_hw.config.schema import Config
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.envs.tasks.joystick.settings import (
    JoystickConfig,
    JoystickFinish,
    JoystickLast,
    JoystickLater,
    JoystickReward,
)
from jaxrl_hw.errors import unknown

PRESETS = ("fast", "optimized", "best")

_SMALL, _WIDE = (256, 128), (1024, 512, 256)
_ITERATIONS = {"fast": 600, "optimized": 1800, "best": 3600}
_AFTER = {("g1_12dof", "optimized"): 2600}
"""Iterations after noise and rate have fallen: for what is asked for at last."""
_PLATEAU = "patience=800,min-delta=0.5"
_ANNEALED = 0.9
"""Part of a preset's goal over which exploration noise and learning rate fall."""


def preset_config(
    robot: str = "g1", preset: str = "optimized", task: str = "auto", algo: str = "ppo"
) -> Config:
    """The configuration of a preset for a robot.

    Raises:
      UserError: unknown robot or preset.
    """
    if preset not in PRESETS:
        raise unknown("preset", preset, PRESETS)
    spec = get_robot(robot)
    base = Config(robot=robot, task=task, algo=algo, preset=preset)
    task = spec.task if task == "auto" else task
    if task == "cartpole":
        return _cartpole(base)
    iterations = _ITERATIONS[preset]
    best = preset == "best"
    widths = _WIDE if best else _SMALL
    ppo = PPOConfig(anneal=round(_ANNEALED * iterations))
    if robot == "g1_12dof":
        ppo = replace(ppo, end_std=0.16, weight_averaging=0.1)
    return replace(
        base,
        iterations=iterations + _AFTER.get((robot, preset), 0),
        early_stop=_PLATEAU if best else "",
        timestep=_TIMESTEPS.get(robot, 0.0),
        joystick=_joystick(robot, len(spec.feet)),
        net=NetConfig(policy=widths, value=widths, init_std=_NOISE.get(robot, 0.8)),
        ppo=replace(ppo, unroll=32, epochs=5, minibatches=8) if best else ppo,
    )


_TIMESTEPS = {"g1_12dof": 0.02 / 3, "g1": 0.005, "go1": 0.005}
"""Physics steps that still carry over to 2 ms, s: what a fine one costs buys more experience."""
_NOISE = {"g1": 0.6, "go1": 0.5}
"""Standard deviation of actions at the start where a unit of action moves the joints far."""


def _joystick(robot: str, feet: int) -> JoystickConfig:
    """Dry friction is left out: 0.1 to 0.3 N m are lost among gains of 20 to 150 N m/rad."""
    config = JoystickConfig(dry_friction=False)
    if feet == 4:
        return _quadruped(config)
    if robot == "g1":
        # 29 joints: arms and waist are held near home
        reward = replace(JoystickReward(), posture=-1.5)
        return replace(config, push_speed=1.0, reward=reward)
    if robot == "g1_12dof":
        # after a push the penalties cost whatever it does: being up has to pay more than they take
        reward = replace(
            JoystickReward(),
            velocity=1.5,
            velocity_fine=1.5,
            velocity_error=-1.0,
            yaw_rate=1.5,
            yaw_error=-0.25,
            foot_height=2.5,
            foot_contact=0.4,
            power=-0.004,
            stand_still=-3.0,
            alive=1.9,
            fall=-4.0,
        )
        return replace(
            config,
            self_collision=False,  # as in its source, where only soles have shapes that collide
            vx=(-1.2, 1.2),  # at the edge of what is drawn it is slower than told
            later=JoystickLater(iteration=800),  # it walks by then
            last=JoystickLast(iteration=1800),  # and stands
            finish=JoystickFinish(iteration=3000),  # and does so at little power
            push_speed=1.5,
            swing_height=0.085,
            standing_phase=0.25,  # else it steps in place
            noise=0.2,  # with more it cannot tell how fast its base moves
            torso_offset=0.01,
            reward=reward,
        )
    return config


def _quadruped(config: JoystickConfig) -> JoystickConfig:
    """It stands by itself: less of the reward has to hold it to its trot."""
    reward = replace(
        JoystickReward(),
        velocity_error=-3.0,
        yaw_error=-1.5,
        foot_height=3.0,
        foot_contact=0.3,
        power=-0.004,
        action_rate=-0.02,
        posture=-0.3,
        base_height=-20.0,
        roll_pitch_rate=-0.05,
    )
    return replace(
        config,
        crouch=0.0,
        swing_height=0.06,
        swing_fraction=0.5,
        height_sigma=0.004,
        velocity_sigma=0.1,
        yaw_sigma=0.1,
        zero_command=0.12,
        push_speed=1.0,
        torso_mass=(-0.5, 1.5),
        torso_offset=0.02,
        reward=reward,
    )


def _cartpole(config: Config) -> Config:
    iterations = {"fast": 100, "optimized": 200, "best": 400}[config.preset]
    ppo = PPOConfig(
        unroll=32,
        epochs=4,
        minibatches=8,
        gamma=0.98,
        learning_rate=2e-3,
        lr_max=2e-3,
        desired_kl=0.02,
        entropy_coef=0.002,
        symmetry="none",
    )
    net = NetConfig(policy=(64, 64), value=(64, 64), init_std=1.0)
    return replace(config, ppo=ppo, net=net, iterations=iterations, save_every=50)
