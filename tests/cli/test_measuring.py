"""What an iteration holds at its peak, from the figures of its two halves."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jaxrl_hw import preset_config
from jaxrl_hw.planning.compiler_stats import ProgramMemory
from jaxrl_hw.training import measure
from jaxrl_hw.training.build import environments
from jaxrl_hw.training.train_step import state_form

MB = 1_000_000


@pytest.mark.parametrize(("collecting", "updating"), [(5, 9), (90, 5)])
def test_the_temporaries_of_one_half_are_gone_when_the_other_runs(
    collecting: int, updating: int
) -> None:
    config = replace(preset_config("cartpole"), physics="native", num_envs=16)
    env, algorithm = environments(config)
    halves = (ProgramMemory(0, size * MB, 0) for size in (collecting, updating))
    items = measure.items_of(env, state_form(env, algorithm), (), *halves)
    assert items is not None
    assert items["temporaries"] == max(collecting, updating) * MB
