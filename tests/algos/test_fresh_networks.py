"""Fresh networks: how their weights are drawn."""

from __future__ import annotations

import re

import jax
import numpy as np
import pytest

from jaxrl_hw import NetConfig
from jaxrl_hw.algos.registry import algorithm_entry
from jaxrl_hw.types import EnvSpec

NET = NetConfig(policy=(16, 8), value=(16, 8))
ACTIONS = np.array([[-1.0], [1.0]], np.float32)


@pytest.mark.parametrize("algo", ["ppo", "a2c", "sac", "dqn"])
def test_no_qr_decomposition_is_one_of_a_batch(algo: str) -> None:
    # on two cores, two batches at once block XLA's threads for ever, in one start of four
    entry = algorithm_entry(algo)
    spec = EnvSpec(5, 7, 1, action_set=ACTIONS if algo == "dqn" else None)
    made = entry.make(entry.sized(entry.settings(), 4, "cpu"), NET, spec, "float32")
    lowered = jax.jit(made.init).trace(jax.random.key(0)).lower(lowering_platforms=("cpu",))
    sizes = re.findall(r"@lapack_sgeqrf_ffi.*? : \(tensor<([\dx]+)xf32>", lowered.as_text())
    assert len(sizes) >= 3
    assert all(size.count("x") == 1 for size in sizes), sizes
