"""Go2's presets."""

from jaxrl_hw.envs.robots.shared_presets import QUADRUPED

PRESETS = {
    **QUADRUPED,
    "all": {
        **QUADRUPED["all"],
        "timestep": 0.005,  # carries over to 2 ms; what a finer one costs buys more experience
        "net.init_std": 0.5,  # a unit of action moves the joints far
        "joystick.gait_period": 0.4,  # a pushed robot catches itself sooner
    },
}
