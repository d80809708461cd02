"""G1 with legs only: its presets."""

from jaxrl_hw.envs.robots.shared_presets import LEGGED, REAL, WALKS

_STAGES = (
    # under noise and delay it would walk slower than told, and sway, so as not to fall: commands
    # count more, and pushes are smaller. A price of power, too, would make it ignore its commands
    {
        "env_steps": WALKS,
        "settings": {
            **REAL,
            "joystick.push_speed": 1.0,
            "joystick.velocity_fine_sigma": 0.015,
            "joystick.reward.velocity_fine": 4.0,
            "joystick.reward.velocity_error": -4.0,
            "joystick.reward.yaw_rate": 3.0,
            "joystick.reward.yaw_error": -1.0,
            "joystick.reward.fall": -5.0,
        },
    },
    # it follows its commands by now: next it has to stand, to withstand pushes, and to walk softly
    {
        "env_steps": 11_059_200,
        "settings": {
            "joystick.zero_command": 0.35,  # pushed, a standing robot falls first
            "joystick.recovery_speed": 0.45,
            "joystick.standing_phase_speed": 0.45,
            "joystick.push_speed": 1.5,
            "joystick.reward.landing": -2.0,
        },
    },
)
PRESETS = {
    **LEGGED,
    # small exploration noise means small updates: it falls slowly, for the last stage to learn too
    "optimized": {
        **LEGGED["optimized"],
        "timesteps": 27_000_000,
        "ppo.anneal_steps": 24_000_000,
    },
    "all": {
        **LEGGED["all"],
        "timestep": 0.02 / 3,  # carries over to 2 ms; what a finer one costs buys more experience
        "curriculum": _STAGES,
        "ppo.end_std": 0.16,
        "ppo.weight_averaging": 0.1,
        "joystick.vx": (-1.2, 1.2),  # at the edge of its commands a policy is too slow
        "joystick.push_speed": 1.5,
        "joystick.swing_height": 0.085,
        "joystick.standing_phase": 0.25,  # at 1 it steps in place
        # after a push every action costs penalties: staying up has to be worth more
        "joystick.reward.velocity": 1.5,
        "joystick.reward.velocity_fine": 1.5,
        "joystick.reward.velocity_error": -1.0,
        "joystick.reward.yaw_rate": 1.5,
        "joystick.reward.yaw_error": -0.25,
        "joystick.reward.foot_height": 2.5,
        "joystick.reward.foot_contact": 0.4,
        "joystick.reward.power": -0.004,
        "joystick.reward.stand_still": -3.0,
        "joystick.reward.alive": 1.9,
        "joystick.reward.fall": -4.0,
    },
}
