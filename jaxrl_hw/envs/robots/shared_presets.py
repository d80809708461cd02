"""What the presets of several robots have in common: settings by dotted key, plain data.

fast       a short goal: a first look, minutes on a laptop
optimized  the default: what trains best per minute on the hardware most people have
best       wide networks, one epoch more and a long goal, ended early where the return no longer
           grows: for an accelerator (`plan --gpu` says which it suits)

Annealing takes nine tenths of a preset's usual goal, or less where a stage follows it.
"""

from __future__ import annotations

from typing import Any

_SMALL = {"net.policy": (256, 128), "net.value": (256, 128)}
_WIDE = {"net.policy": (1024, 512, 256), "net.value": (1024, 512, 256)}

ANY: dict[str, dict[str, Any]] = {
    "all": {},
    "fast": {"timesteps": 3_700_000, "ppo.anneal_steps": 3_300_000, **_SMALL},
    "optimized": {"timesteps": 11_000_000, "ppo.anneal_steps": 10_000_000, **_SMALL},
    "best": {
        "timesteps": 60_000_000,
        "ppo.anneal_steps": 54_000_000,
        "early_stop": "patience=10M,min-delta=0.5",
        "ppo.epochs": 5,
        **_WIDE,
    },
}
ENVIRONMENT: dict[str, dict[str, Any]] = {
    **ANY,
    "all": {"ppo.gamma": 0.97, "ppo.symmetry": "none", "ppo.entropy_coef": 0.005},
}
"""An environment of another library."""
WALKS = 4_915_200
"""Env steps after which a legged robot walks: then come noise, delays and robots that differ."""
_NOMINAL: dict[str, Any] = {
    "joystick.noise": 0.2,  # noise costs tracking: it learns to walk first
    "joystick.torso_offset": 0.01,
    "joystick.kp": (1.0, 1.0),
    "joystick.kd": (1.0, 1.0),
    "joystick.torque_limit": (1.0, 1.0),
    "joystick.joint_damping": (1.0, 1.0),
    "joystick.joint_offset": 0.0,
    "joystick.imu_tilt": 0.0,
    "joystick.gyro_bias": 0.0,
    "joystick.action_delay": (0.0, 0.0),
    "joystick.observation_delay": (0.0, 0.0),
}
REAL: dict[str, Any] = {
    "joystick.noise": 1.0,
    "joystick.torso_offset": 0.05,
    "joystick.kp": (0.9, 1.1),
    "joystick.kd": (0.9, 1.1),
    "joystick.torque_limit": (0.9, 1.1),
    "joystick.joint_damping": (0.5, 2.0),
    "joystick.joint_offset": 0.02,
    "joystick.imu_tilt": 0.0175,
    "joystick.gyro_bias": 0.05,
    "joystick.action_delay": (-0.02, 0.02),
    "joystick.observation_delay": (-0.02, 0.02),
}
"""What the sensors, motors and masses of a real robot bring, beside other masses, floors and
joints, which vary from the start."""
LEGGED: dict[str, dict[str, Any]] = {
    **ANY,
    "all": {
        "eval_every": 1_000_000,
        # one noisy, late reading does not show the velocity: five do, and it is estimated
        "net.memory": "history",
        "ppo.estimation_coef": 0.5,
        "joystick.foresight": True,  # pushes and commands leave less noise in the advantages
        "ppo.symmetry": "network",  # walks after a third less experience, at less cost
        "ppo.weight_averaging": 0.1,
        "curriculum": ({"env_steps": WALKS, "settings": REAL},),
        **_NOMINAL,
    },
    # its noise is small: more of it, and a robot falls before it learns to step
    "sac": {
        "timesteps": 6_000_000,
        "net.init_std": 0.3,
        "sac.buffer_size": 400_000,
        "sac.n_step": 3,
        "sac.tau": 0.05,
        "sac.learning_rate": 5e-4,
        "sac.target_entropy": -0.2,
        "sac.alpha_learning_rate": 3e-3,
    },
    "sac, fast": {"timesteps": 4_500_000, "sac.buffer_size": 200_000},  # it has begun to walk
    "sac, best": {"timesteps": 12_000_000, "sac.buffer_size": 1_000_000},
}
_REAL_AND_EXACT: dict[str, Any] = {
    **REAL,
    # under noise and delay a biped would walk slower than told, and sway, so as not to fall:
    # commands count more
    "joystick.velocity_fine_sigma": 0.015,
    "joystick.reward.velocity_fine": 4.0,
    "joystick.reward.velocity_error": -4.0,
    "joystick.reward.yaw_rate": 3.0,
    "joystick.reward.yaw_error": -1.0,
}
_FROM_WALKING_ON: dict[str, Any] = {
    "env_steps": WALKS,
    "settings": {
        **_REAL_AND_EXACT,
        "joystick.push_speed": 1.5,
        "joystick.push_sideways": 0.5,  # where a biped falls first
        "joystick.recovery_speed": 0.45,
        "joystick.zero_command": 0.35,  # pushed, a standing robot falls first
        "joystick.reward.landing": -2.0,
        "joystick.reward.alive": 3.5,
        "joystick.reward.fall": -10.0,
    },
}
"""A biped that walks learns to stand, to withstand pushes, and to step where one moves it, while
exploration is still large."""
BIPED: dict[str, dict[str, Any]] = {
    **LEGGED,
    "optimized": {
        **LEGGED["optimized"],
        "timesteps": 16_000_000,
        "ppo.anneal_steps": 14_400_000,  # exact once noise is small; the rest is for hard pushes
    },
    "all": {
        **LEGGED["all"],
        "ppo.minibatch_size": 512,  # twice the updates: it walks sooner
        "joystick.swing_height": 0.06,  # quick, high steps take power
        "joystick.push_speed": 1.5,
        "curriculum": (
            {
                **_FROM_WALKING_ON,
                "settings": {
                    **_FROM_WALKING_ON["settings"],
                    # its pelvis turns to and fro with each step, and has to be held
                    "joystick.reward.yaw_error": -2.0,
                    "joystick.reward.power": -0.01,
                },
            },
            {
                "env_steps": 2 * WALKS,
                "settings": {
                    "joystick.push_speed": 2.0,
                    "joystick.push_interval_s": 3.0,
                    "joystick.reward.power": -0.024,
                },
            },
            {"env_steps": WALKS * 5 // 2, "settings": {"joystick.reward.yaw_error": -2.5}},
        ),
    },
}
WHOLE_BODY: dict[str, dict[str, Any]] = {
    **BIPED,
    "all": {
        **BIPED["all"],
        "timestep": 0.005,  # carries over to 2 ms; what a finer one costs buys more experience
        "net.init_std": 0.6,  # a unit of action moves the joints far
        "joystick.reward.posture": -1.5,  # many joints: arms and waist are held near home
    },
}
"""A biped that moves its arms too."""
LEGS_DRIVEN: dict[str, dict[str, Any]] = {
    **BIPED,
    "all": {
        **BIPED["all"],
        "timestep": 0.02 / 3,  # carries over to 2 ms; what a finer one costs buys more experience
        "curriculum": (_FROM_WALKING_ON,),
        "joystick.vx": (-1.2, 1.2),  # at the edge of its commands a policy is too slow
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
"""A biped whose arms are held: its legs alone are driven."""
QUADRUPED: dict[str, dict[str, Any]] = {
    **LEGGED,
    "optimized": {
        **LEGGED["optimized"],
        "timesteps": 20_000_000,
        "ppo.anneal_steps": 18_000_000,
    },
    # it stands by itself: less of the reward has to hold it to its trot
    "all": {
        **LEGGED["all"],
        "curriculum": (
            # it walks exactly by now, and what is left of a run teaches it to stay up
            {
                "env_steps": WALKS,
                "settings": {
                    **REAL,
                    "joystick.push_speed": 1.5,
                    "joystick.push_interval_s": 2.5,  # it recovers sooner, and is as exact
                    "joystick.reward.velocity_error": -5.0,
                    "joystick.reward.fall": -5.0,
                },
            },
            {
                "env_steps": 2 * WALKS,
                "settings": {
                    "joystick.push_speed": 2.0,
                    "joystick.recovery_speed": 0.45,
                    "joystick.zero_command": 0.2,
                },
            },
        ),
        "joystick.crouch": 0.0,
        "joystick.swing_height": 0.06,
        "joystick.swing_fraction": 0.5,
        "joystick.height_sigma": 0.004,
        "joystick.velocity_sigma": 0.1,
        "joystick.yaw_sigma": 0.1,
        "joystick.zero_command": 0.12,
        "joystick.push_speed": 1.0,
        "joystick.torso_mass": (-0.5, 1.5),
        "joystick.reward.velocity_error": -3.0,
        "joystick.reward.yaw_error": -1.5,
        "joystick.reward.foot_height": 3.0,
        "joystick.reward.foot_contact": 0.3,
        "joystick.reward.power": -0.004,
        "joystick.reward.action_rate": -0.02,
        "joystick.reward.posture": -0.3,
        "joystick.reward.base_height": -20.0,
        "joystick.reward.roll_pitch_rate": -0.05,
        "joystick.reward.alive": 1.5,
        "joystick.reward.fall": -4.0,
    },
}


def of_kind(task: str, feet: int) -> dict[str, dict[str, Any]]:
    """The presets of a robot that has none of its own, by its task and its number of feet."""
    if task != "joystick":
        return ANY
    return QUADRUPED if feet == 4 else BIPED
