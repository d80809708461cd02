"""Whole configurations by robot and by how long one wants to wait.

fast       small networks and a short goal: a first look, minutes on a laptop
optimized  the default: what trains best per minute on the hardware most people have
best       wider networks and a long goal: for an accelerator, or a night
"""

from __future__ import annotations

from dataclasses import replace

from jaxrl_hw.config import Config, JoystickConfig, JoystickReward, NetConfig, PPOConfig
from jaxrl_hw.errors import unknown
from jaxrl_hw.robots import get_robot

PRESETS = ("fast", "optimized", "best")

_SMALL, _MEDIUM, _LARGE = (256, 128), (512, 256, 128), (1024, 512, 256)


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
    config = replace(base, joystick=_joystick(robot, len(spec.feet)))
    small = len(spec.action_scale) <= 12
    if preset == "fast":
        return _with(config, _SMALL, iterations=300)
    if preset == "best":
        return _with(config, _MEDIUM if small else _LARGE, iterations=3000)
    return _with(config, _SMALL if small else _MEDIUM, iterations=1000)


def _with(config: Config, widths: tuple[int, ...], iterations: int) -> Config:
    start_std = 0.8 if len(get_robot(config.robot).action_scale) <= 12 else 0.6
    net = NetConfig(policy=widths, value=widths, init_std=start_std)
    return replace(config, net=net, iterations=iterations)


def _joystick(robot: str, feet: int) -> JoystickConfig:
    config = JoystickConfig()
    if feet == 4:
        # a quadruped's trot: lower steps, quicker turns, and no crouch in its standing pose
        reward = replace(JoystickReward(), posture=-0.3, base_height=-20.0, roll_pitch_rate=-0.05)
        return replace(
            config,
            crouch=0.0,
            swing_height=0.06,
            swing_fraction=0.5,
            height_sigma=0.004,
            push_speed=1.0,
            torso_mass=(-0.5, 1.5),
            torso_offset=0.02,
            reward=reward,
        )
    if robot == "g1":
        # 29 joints: the arms and the waist are held near home, not as firmly as the hips
        return replace(config, reward=replace(JoystickReward(), posture=-0.5, stand_still=-0.5))
    return config


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
