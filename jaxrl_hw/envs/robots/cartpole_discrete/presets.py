"""The cartpole's presets, with five forces from -10 to 10 N."""

from typing import Any

from jaxrl_hw.envs.robots.cartpole import presets

PRESETS: dict[str, dict[str, Any]] = {
    **presets.PRESETS,
    "all": {**presets.PRESETS["all"], "discrete_actions": 5},
    "dqn": {"timesteps": 100_000, "max_envs": 32, "dqn.reuse": 8.0},
    "dqn, fast": {"timesteps": 60_000},
    "dqn, best": {"timesteps": 200_000},
}
