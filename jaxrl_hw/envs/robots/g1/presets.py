"""G1's presets."""

from jaxrl_hw.envs.robots.shared_presets import LEGGED

PRESETS = {
    **LEGGED,
    "all": {
        **LEGGED["all"],
        "timestep": 0.005,  # carries over to 2 ms; what a finer one costs buys more experience
        "net.init_std": 0.6,  # a unit of action moves the joints far
        "joystick.push_speed": 1.0,
        "joystick.reward.posture": -1.5,  # 29 joints: arms and waist are held near home
    },
}
