"""G1 with legs only: its presets."""

from jaxrl_hw.envs.robots.shared_presets import LEGGED, REAL, WALKS

_STAGES = (
    {
        "env_steps": WALKS,
        "settings": {
            **REAL,
            "joystick.zero_command": 0.25,  # pushed, a standing robot falls first
            "joystick.recovery_speed": 0.4,
            "joystick.reward.yaw_rate": 2.0,
            "joystick.reward.walking_power": -0.01,  # a robot that falls learns nothing from it
            "joystick.reward.landing": -5.0,
            "joystick.reward.fall": -5.0,
        },
    },
    # it stands by now: next it has to withstand pushes, and to be exact
    {
        "env_steps": 11_059_200,
        "settings": {
            "joystick.zero_command": 0.45,
            "joystick.recovery_speed": 0.45,
            "joystick.standing_phase_speed": 0.45,
            "joystick.reward.velocity_fine": 2.2,
            "joystick.reward.walking_power": -0.03,
            "joystick.reward.fall": -15.0,
        },
    },
    # a gait that a high price of power has made efficient stays so at a lower one, and becomes
    # exact; with more pushes it practises recovery
    {
        "env_steps": 18_432_000,
        "settings": {
            "joystick.recovery_speed": 0.35,
            "joystick.standing_phase_speed": 0.35,
            "joystick.push_interval_s": 2.5,
            "joystick.reward.velocity_fine": 2.7,
            "joystick.reward.walking_power": -0.018,
            "joystick.reward.foot_height": 1.5,  # the feet leave the ground: swing may be lower
        },
    },
)
PRESETS = {
    **LEGGED,
    # 17 million steps after annealing, for the last two stages
    "optimized": {**LEGGED["optimized"], "timesteps": 27_000_000},
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
