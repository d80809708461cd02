"""Cartpole's presets: three goals."""

PRESETS = {
    "all": {
        "ppo.unroll": 32,
        "ppo.epochs": 4,
        "ppo.minibatches": 8,
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
    "fast": {"iterations": 100},
    "optimized": {"iterations": 200},
    "best": {"iterations": 400},
}
