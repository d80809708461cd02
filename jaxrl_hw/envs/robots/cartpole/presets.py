"""Cartpole's presets: three goals."""

PRESETS = {
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
}
