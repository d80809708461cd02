"""What an iteration holds at its peak, from the figures of its two halves."""

from __future__ import annotations

from dataclasses import replace

import jax
import pytest

from jaxrl_hw import measuring, preset_config
from jaxrl_hw.building import environments
from jaxrl_hw.hardware.compiled import ProgramMemory
from jaxrl_hw.loop import state_form

MB = 1_000_000


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="an accelerator has a pool of its own")
@pytest.mark.parametrize(
    ("collecting", "updating", "together"),
    [
        (5, 9, 14),  # malloc keeps both for the next time
        (5, 90, 95),
        (90, 5, 95),
        (90, 70, 90),  # what is as large goes back to the system, and the other takes its place
    ],
)
def test_malloc_keeps_what_is_small_of_the_half_that_does_not_run(
    collecting: int, updating: int, together: int
) -> None:
    config = replace(preset_config("cartpole"), physics="native", num_envs=16)
    env, algorithm = environments(config)
    halves = (ProgramMemory(0, size * MB, 0) for size in (collecting, updating))
    items = measuring.items_of(env, state_form(env, algorithm), (), *halves)
    assert items is not None
    assert items["temporaries"] == together * MB
