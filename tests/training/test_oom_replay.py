"""What gives way first when memory runs out in a run with a replay."""

from __future__ import annotations

import jax
import pytest

from jaxrl_hw import Plan, RunError, make_plan
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.planning.continuation import size_of
from jaxrl_hw.training.oom import smaller_plan

NO_ROOM = jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1.00GiB.")
WORDS = [
    *("--robot", "cartpole", "--algo", "sac", "--num-envs", "4", "--iterations", "100"),
    *("--sac.buffer-size", "4000", "--sac.batch-size", "128", "--sac.learning-starts", "1000"),
    *("--sac.gradient-steps", "3"),
]


def shrunk(plan: Plan) -> Plan:
    found = smaller_plan(plan, NO_ROOM, None, None)
    assert found is not None
    return found[0]


def test_the_replay_is_halved_first_then_the_batch_then_the_environments() -> None:
    plan, sizes = make_plan(parse(WORDS)), []
    for _ in range(6):
        plan = shrunk(plan)
        size = size_of(plan.config)
        sizes.append((size["replay"], size["minibatch_size"], size["num_envs"]))
    # 1,000 is what learning starts with, 32 the smallest batch
    assert sizes == [
        (2000, 128, 4),
        (1000, 128, 4),
        (1000, 64, 4),
        (1000, 32, 4),
        (1000, 32, 2),
        (1000, 32, 1),
    ]
    assert plan.config.sac.gradient_steps == 12, "smaller batches, as many samples"
    with pytest.raises(RunError):
        shrunk(plan)


def test_the_plan_counts_with_the_smaller_replay() -> None:
    plan = make_plan(parse(WORDS))
    half = shrunk(plan)
    assert half.memory["replay"] == pytest.approx(plan.memory["replay"] / 2, rel=0.01)
    assert half.sizing.expected_bytes == sum(half.memory.values()) < plan.sizing.expected_bytes
