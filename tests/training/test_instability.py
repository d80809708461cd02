"""NaNs in a run: updates are skipped, the run goes back, and what it keeps is whole."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import pytest

from jaxrl_hw import Run, RunError, fit, load_run
from jaxrl_hw.cli.command import run_command
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.build import Build, Built, build_step
from jaxrl_hw.training.finite_updates import guarded
from jaxrl_hw.types import WHOLE, Learner

RATE = 1e-3
SMALL = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "16", "--no-tensorboard"),
    *("--ppo.unroll", "8", "--ppo.epochs", "1", "--ppo.minibatch-size", "64"),
    *("--net.policy", "16", "--net.value", "16", "--ppo.lr-schedule", "fixed"),
    *("--ppo.learning-rate", str(RATE), "--save-every", "2", "--nan-patience", "2"),
]
STEPS = 16 * 8
"""Env steps of an iteration."""

When = Callable[[Any, Any], Any]
"""(iterations done before the batch, learning rate) -> whether its rewards are NaN."""


def poisoned(when: When) -> Build:
    """The real train step of an algorithm that gets a NaN at some env steps."""

    def build(plan: Any, env: Any, algorithm: Any, **more: Any) -> Built:
        def update(learner: Any, batch: Any, key: Any, shards: Any = WHOLE) -> Any:
            rate = learner.opt_state.hyperparams["learning_rate"]
            is_bad = when(batch.env_steps[1] // STEPS, rate)
            reward = jnp.where(is_bad, jnp.nan, batch.reward)
            return algorithm.update(learner, batch._replace(reward=reward), key, shards)

        return build_step(plan, env, algorithm._replace(update=update), **more)

    return build


def train(folder: Path, iterations: int, when: When, *flags: str, callback: Any = None) -> Run:
    argv = [*SMALL, "--run-dir", str(folder), "--iterations", str(iterations), *flags]
    console = Console(io.StringIO())
    return fit(parse(argv), callback, console, build=poisoned(when))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def ended(folder: Path) -> list[str]:
    return [session["ended"] for session in lines(folder / "sessions.jsonl")]


def while_fast(least: int, most_rate: float) -> When:
    """NaNs from an iteration on, as long as the rate is above one."""
    return lambda done, rate: (done >= least) & (rate > most_rate)


def same(a: Any, b: Any) -> None:
    a, b = (state._replace(key=jax.random.key_data(state.key)) for state in (a, b))
    chex.assert_trees_all_equal(a, b)


@pytest.mark.slow
def test_one_nan_skips_one_update_and_the_run_goes_on(tmp_path: Path) -> None:
    run = train(tmp_path, 3, lambda done, rate: done == 2)
    before = load_run(tmp_path, 2).state
    chex.assert_trees_all_equal(run.state.learner, before.learner)
    assert (run.iteration, run.metrics["env_steps"][-1]) == (3, 3 * STEPS)
    run = train(tmp_path, 6, lambda done, rate: done == 2)
    assert run.metrics["skipped_updates"] == [0, 0, 1, 0, 0, 0]
    assert run.metrics["lr"] == pytest.approx([RATE] * 6), "nothing is halved"
    assert run.metrics["loss/value"][2] is None
    assert all(math.isfinite(x.sum()) for x in jax.tree.leaves(run.state.learner))
    assert ended(tmp_path) == ["goal", "goal"]


class Halved(NamedTuple):
    """A run of 9 iterations that goes back from iteration 7 to 4, whose rate is then halved."""

    run: Run
    shown: list[int]
    """Iterations as the callback saw them."""


HALVED_FROM = while_fast(5, 0.6 * RATE)


@pytest.fixture(scope="module")
def halved(tmp_path_factory: pytest.TempPathFactory) -> Halved:
    shown: list[int] = []
    folder = tmp_path_factory.mktemp("halved")
    run = train(folder, 9, HALVED_FROM, callback=lambda row: shown.append(row["iteration"]))
    return Halved(run, shown)


@pytest.mark.slow
def test_after_some_in_a_row_the_run_goes_back_with_half_the_rate(halved: Halved) -> None:
    run = halved.run
    assert halved.shown == [1, 2, 3, 4, 5, 6, 5, 6, 7, 8, 9], "not from 6, which was not saved"
    assert run.metrics["iteration"] == list(range(1, 10))
    assert sum(run.metrics["skipped_updates"]) == 0
    assert run.metrics["lr"] == pytest.approx([RATE] * 4 + [RATE / 2] * 5)
    assert ended(run.folder) == ["unstable", "goal"]
    first, second = lines(run.folder / "sessions.jsonl")
    assert (first["last_iteration"], second["first_iteration"]) == (7, 5)
    assert second["halved"][0]["ppo.learning_rate"] == [RATE, RATE / 2]
    ppo = json.loads((run.folder / "config.json").read_text())["config"]["ppo"]
    assert (ppo["learning_rate"], ppo["entropy_coef"]) == (RATE / 2, 0.001)


@pytest.mark.slow
def test_a_halved_run_continues_to_the_bit_wherever_it_was_cut(
    halved: Halved, tmp_path: Path
) -> None:
    seen: list[int] = []

    def cut(row: dict[str, Any]) -> None:
        seen.append(row["iteration"])
        if seen[-2:] == [6, 5]:  # halved, and no checkpoint of it yet
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(tmp_path, 9, HALVED_FROM, callback=cut)
    run = train(tmp_path, 9, HALVED_FROM)  # with the rate that the run began with, as before
    same(run.state, halved.run.state)
    assert run.metrics["loss/value"] == halved.run.metrics["loss/value"]
    assert ended(tmp_path) == ["unstable", "failed", "goal"]
    # --override-config takes the rate that is asked for
    run = train(tmp_path, 10, lambda done, rate: False, "--override-config")
    assert run.config.ppo.learning_rate == RATE


@pytest.mark.slow
def test_after_three_halvings_the_run_fails_and_its_checkpoint_is_kept(tmp_path: Path) -> None:
    train(tmp_path, 2, lambda done, rate: False)
    log = tmp_path / "sessions.jsonl"
    record = {**lines(log)[0], "halved": [{"ppo.clip": [9.0, 8.0]}] * 2}  # of other processes
    log.write_text(json.dumps(record) + "\n")
    with pytest.raises(RunError) as failure:
        train(tmp_path, 9, lambda done, rate: done >= 3, "--nan-patience", "1")
    assert "\n" not in str(failure.value)
    assert ended(tmp_path) == ["goal", "unstable", "unstable"]
    assert [len(session.get("halved", [])) for session in lines(log)] == [2, 2, 3]
    assert load_run(tmp_path).iteration == 2


@pytest.mark.slow
def test_with_on_nan_fail_the_first_one_ends_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command() -> int:
        train(tmp_path, 9, lambda done, rate: done == 3, "--on-nan", "fail")
        return 0

    assert run_command(command) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "loss/value" in error
    assert "iteration 4" in error
    assert ended(tmp_path) == ["failed"]
    assert load_run(tmp_path).iteration == 2


@pytest.mark.parametrize("place", ["loss/policy", "grad_norm", "obs_stats", None])
def test_the_learner_stays_where_anything_of_its_update_is_not_finite(place: str | None) -> None:
    before = Learner({"w": jnp.ones(3)}, (), {"mean": jnp.zeros(2)})

    def update(learner: Any, batch: Any, key: Any, shards: Any = WHOLE) -> Any:
        figures = {"loss/policy": jnp.ones(()), "grad_norm": jnp.ones(()), "kl": jnp.nan}
        stats = jnp.array([1.0, jnp.inf if place == "obs_stats" else 1.0])
        after = Learner({"w": jnp.zeros(3)}, (), {"mean": stats})
        return after, figures if place not in figures else {**figures, place: jnp.inf * 1.0}

    after, metrics = guarded(update)(before, None, None)
    assert int(metrics["skipped_updates"]) == (place is not None)
    kept = before if place else Learner({"w": jnp.zeros(3)}, (), {"mean": jnp.ones(2)})
    chex.assert_trees_all_equal(after, kept)
