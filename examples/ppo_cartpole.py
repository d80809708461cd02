"""PPO on the cartpole in a loop of your own, with library calls only.

    python examples/ppo_cartpole.py --iterations 150

A train step is a pure function: state in, new state and metrics out. What you do between two steps
(log, stop, save, change your mind) is up to you. `jaxrl_hw.fit` is the same loop with checkpoints,
a run folder and a live line around it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from jaxrl_hw import (
    init_train_state,
    make_algorithm,
    make_env,
    make_plan,
    make_train_step,
    preset_config,
)


def train(iterations: int, num_envs: int, seed: int = 0) -> list[float]:
    """Train, and return the mean episode return of every iteration (NaN before the first)."""
    config = replace(preset_config("cartpole"), num_envs=num_envs, seed=seed)
    # settles every "auto" for this machine; give num_envs="auto" to have it sized from free memory
    config = make_plan(config).config

    env = make_env(config)
    algorithm = make_algorithm(config, env)
    state = init_train_state(env, algorithm, config.seed)
    step = make_train_step(env, algorithm)

    returns = []
    for iteration in range(1, iterations + 1):
        state, metrics = step(state)  # the old state's memory is reused: do not touch it again
        returns.append(float(metrics["episode_return"]))
        upright = float(metrics["upright_share"])
        print(f"iteration {iteration}: return {returns[-1]:.1f}, upright {upright:.0%} of the time")
    return returns


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=150)
    parser.add_argument("--num-envs", type=int, default=64)
    asked = parser.parse_args()
    train(asked.iterations, asked.num_envs)
