"""The trainer learns: cart-pole from nothing to 90 % of the best it gets."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxrl_hw.config.factory import make_algorithm, make_env
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.training.train_step import init_train_state, make_train_step

BEST = 440.0
"""Mean return that 300 iterations of 512 environments settle at (seed 0: 436 to 440). A pole that
is upright from the start would get 500."""


@pytest.mark.slow
@pytest.mark.usefixtures("fully_optimized")
@pytest.mark.parametrize("seed", [0])
def test_cartpole_reaches_nine_tenths_of_its_best_return(seed: int) -> None:
    config = replace(preset_config("cartpole"), physics="native", num_envs=256, seed=seed)
    env = make_env(config)
    algorithm = make_algorithm(config, env)
    step, state = make_train_step(env, algorithm), init_train_state(env, algorithm, seed)
    returns = []
    # measured: seeds 0 to 4 take 100 to 160 iterations of 0.2 s on two quiet cores
    for _ in range(220):
        state, metrics = step(state)
        returns.append(float(metrics["episode_return"]))
        if returns[-1] >= 0.9 * BEST:
            break
    assert max(returns[:5]) < 0.1 * BEST  # at first it hangs
    assert returns[-1] >= 0.9 * BEST
    assert float(metrics["upright_share"]) > 0.7
    assert int(metrics["nonfinite_envs"]) == 0
