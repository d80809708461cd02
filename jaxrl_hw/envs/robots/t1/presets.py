"""T1's presets."""

from jaxrl_hw.envs.robots.shared_presets import WHOLE_BODY

PRESETS = {
    **WHOLE_BODY,
    "all": {
        **WHOLE_BODY["all"],
        "net.init_std": 0.4,  # stiff joints: a unit of action asks for all of a hip's torque
        "joystick.gait_period": 0.55,  # a pushed robot catches itself sooner
    },
}
