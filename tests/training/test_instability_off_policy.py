"""A gradient that is not finite in a run of SAC or DQN: skipped, counted, and the run goes back."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import pytest

from jaxrl_hw import Run, fit, load_run
from jaxrl_hw.cli.command import run_command
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.build import Build, Built, build_step
from jaxrl_hw.types import WHOLE

RATE = 1e-3
STEPS = 8 * 4
"""Env steps of an iteration."""
ROBOTS = {"sac": "cartpole", "dqn": "cartpole_discrete"}
NETS = {"sac": ["--net.policy", "8", "--net.value", "8"], "dqn": ["--dqn.widths", "8"]}
KNOBS = {
    "buffer-size": 400,
    "batch-size": 32,
    "learning-starts": STEPS,
    "gradient-steps": 4,
    "train-freq": 4,
    "learning-rate": RATE,
}

When = Callable[[Any, float], Any]
"""(iterations done before the batch, learning rate) -> whether the gradients are NaN."""


def ruined(when: When) -> Build:
    """The real train step of an algorithm whose networks are NaN while some updates compute."""

    def build(plan: Any, env: Any, algorithm: Any, **more: Any) -> Built:
        rate = getattr(plan.config, plan.config.algo).learning_rate

        def update(learner: Any, batch: Any, key: Any, shards: Any = WHOLE) -> Any:
            is_bad = jnp.asarray(when(batch.env_steps[1] // STEPS, rate))
            factor = jnp.where(is_bad, jnp.nan, 1.0)
            params = jax.tree.map(lambda x: (x * factor).astype(x.dtype), learner.params)
            return algorithm.update(learner._replace(params=params), batch, key, shards)

        return build_step(plan, env, algorithm._replace(update=update), **more)

    return build


def train(algo: str, folder: Path, iterations: int, when: When, *flags: str) -> Run:
    argv = ["--robot", ROBOTS[algo], "--algo", algo, "--physics", "native", "--num-envs", "8"]
    argv += [*NETS[algo], *(word for k, v in KNOBS.items() for word in (f"--{algo}.{k}", str(v)))]
    argv += ["--no-tensorboard", "--save-every", "2", "--nan-patience", "2", *flags]
    argv += ["--run-dir", str(folder), "--iterations", str(iterations)]
    return fit(parse(argv), None, Console(io.StringIO()), build=ruined(when))


def ended(folder: Path) -> list[str]:
    lines = (folder / "sessions.jsonl").read_text().splitlines()
    return [json.loads(line)["ended"] for line in lines]


algorithms = pytest.mark.parametrize("algo", ROBOTS)


@pytest.mark.slow
@algorithms
def test_one_gradient_that_is_not_finite_skips_one_update(algo: str, tmp_path: Path) -> None:
    run = train(algo, tmp_path, 3, lambda done, rate: done == 2)
    before, skipped = load_run(tmp_path, 2).state.learner, run.state.learner
    chex.assert_trees_all_equal(before._replace(replay=()), skipped._replace(replay=()))
    run = train(algo, tmp_path, 5, lambda done, rate: False)
    assert run.metrics["skipped_updates"] == [0, 0, 1, 0, 0]
    assert [row is None for row in run.metrics["grad_norm"]] == [False, False, True, False, False]
    learned = run.state.learner.params
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), skipped.params, learned)
    assert any(jax.tree.leaves(moved)), "the next one learns again"
    assert run.metrics["replay_filled"] == [STEPS * n for n in (1, 2, 3, 4, 5)], "what it saw stays"
    assert all(math.isfinite(x.sum()) for x in jax.tree.leaves(learned))
    assert ended(tmp_path) == ["goal", "goal"]


@pytest.mark.slow
@algorithms
def test_after_some_in_a_row_the_run_goes_back_with_half_the_rate(
    algo: str, tmp_path: Path
) -> None:
    run = train(algo, tmp_path, 9, lambda done, rate: (done >= 5) & (rate > 0.6 * RATE))
    assert run.metrics["iteration"] == list(range(1, 10))
    assert sum(run.metrics["skipped_updates"]) == 0, "the rows of the better way are kept alone"
    assert ended(tmp_path) == ["unstable", "goal"]
    first, second = map(json.loads, (tmp_path / "sessions.jsonl").read_text().splitlines())
    assert (first["last_iteration"], second["first_iteration"]) == (7, 5)
    assert second["halved"][0][f"{algo}.learning_rate"] == [RATE, RATE / 2]
    saved = json.loads((tmp_path / "config.json").read_text())["config"]
    assert saved[algo]["learning_rate"] == RATE / 2


@pytest.mark.slow
@algorithms
def test_with_on_nan_fail_the_first_one_ends_the_run(
    algo: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        train(algo, tmp_path, 9, lambda done, rate: done == 3, "--on-nan", "fail")
        return 0

    assert run_command(command) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "iteration 4" in error
    assert ended(tmp_path) == ["failed"]
    assert load_run(tmp_path).iteration == 2
