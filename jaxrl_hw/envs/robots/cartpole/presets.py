"""Cartpole's presets: three goals, and what other algorithms than PPO need for it."""

from typing import Any

PRESETS: dict[str, dict[str, Any]] = {
    "all": {
        "ppo.epochs": 4,
        "ppo.gamma": 0.98,
        "ppo.learning_rate": 2e-3,
        "ppo.lr_max": 2e-3,
        "ppo.desired_kl": 0.02,
        "ppo.entropy_coef": 0.002,
        "ppo.symmetry": "none",
        "net.policy": (64, 64),
        "net.value": (64, 64),
        "net.init_std": 1.0,
        "save_every": 50,
    },
    "fast": {"timesteps": 800_000},
    "optimized": {"timesteps": 1_600_000},
    "best": {"timesteps": 3_200_000},
    # short batches: with one step along the gradient of each, it takes many of them
    "a2c": {
        "timesteps": 2_500_000,
        "max_envs": 64,
        "net.activation": "tanh",
        "a2c.n_steps": 8,
        "a2c.gamma": 0.98,
        "a2c.learning_rate": 7e-4,
        "a2c.entropy_coef": 0.0,
    },
    "a2c, fast": {"timesteps": 1_500_000},
    "a2c, best": {"timesteps": 4_000_000},
    # few environments, many small steps
    "sac": {
        "timesteps": 200_000,
        "max_envs": 32,
        "sac.buffer_size": 200_000,
        "sac.batch_size": 128,
        "sac.reuse": 32.0,
        "sac.learning_starts": 2_000,
        "sac.n_step": 3,
        "sac.gamma": 0.98,
        "sac.tau": 0.01,
        "sac.policy_delay": 1,
        "sac.alpha_start": 0.1,
        "sac.learning_rate": 1e-3,
        "sac.alpha_learning_rate": 1e-3,
    },
    "sac, fast": {"timesteps": 80_000},
    "sac, best": {"timesteps": 200_000},
}
