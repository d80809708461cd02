"""`--eval-every`: training does not notice it, resume repeats it, the best goes by it."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import Run, fit, preset_config
from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.description import score
from jaxrl_hw.checkpointing.store import best_checkpoint, list_checkpoints
from jaxrl_hw.config import migrations
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.planning.memory_model import footprint
from jaxrl_hw.training.evaluations import is_due

BY_THE_CLOCK = {"wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes"}
FIGURES = {
    "eval/velocity_error",
    "eval/yaw_error",
    "eval/falls",
    "eval/power",
    "eval/self_contacts",
    "eval/pushed_velocity_error",
    "eval/pushed_falls",
}
SAMPLES = 128  # of an iteration of `train_run`
EVALUATED = {"iterations": 7, "save_every": 2, "eval_every": 300}
"""Saved at 256, 512 and 768 env steps and at the end; 300 and 600 have then been passed."""


def rows(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k not in BY_THE_CLOCK} for x in lines]


def without_figures(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in FIGURES}


@pytest.fixture(scope="module")
def whole(train_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_run("g1_12dof", tmp_path_factory.mktemp("whole") / "run", **EVALUATED)


@pytest.mark.slow
def test_the_saved_iteration_after_so_many_steps_is_evaluated(whole: Run) -> None:
    found = {row["iteration"]: row.keys() & FIGURES for row in rows(whole.folder)}
    assert [iteration for iteration in found if found[iteration]] == [4, 6]
    assert found[4] == found[6] == FIGURES
    last = rows(whole.folder)[5]
    assert 0 <= last["eval/falls"] <= 10
    assert 0 <= last["eval/pushed_falls"] <= 10
    assert last["eval/velocity_error"] > 0.0


@pytest.mark.slow
def test_training_is_the_same_to_the_bit_with_and_without_it(
    whole: Run, train_run: Callable[..., Run], tmp_path: Path
) -> None:
    never = train_run("g1_12dof", tmp_path / "run", **{**EVALUATED, "eval_every": 0})
    assert rows(never.folder) == [without_figures(row) for row in rows(whole.folder)]


@pytest.mark.slow
def test_a_run_in_two_sessions_has_the_evaluations_of_one(
    whole: Run, train_run: Callable[..., Run], tmp_path: Path
) -> None:
    first = train_run("g1_12dof", tmp_path / "run", **{**EVALUATED, "iterations": 5})
    fit(replace(first.config, iterations=7), console=Console(io.StringIO()))
    assert rows(first.folder) == rows(whole.folder)


@pytest.mark.slow
def test_the_best_checkpoint_of_a_run_is_an_evaluated_one(whole: Run) -> None:
    saved = {one.iteration: one for one in list_checkpoints(whole.folder / "checkpoints")}
    logged = {row["iteration"]: row for row in rows(whole.folder)}
    assert saved[7].evaluation is None
    for iteration in (4, 6):
        figures = {name: logged[iteration][name] for name in FIGURES}
        evaluation = saved[iteration].evaluation
        assert {f"eval/{name}": value for name, value in evaluation.items()} == figures
    best = best_checkpoint(list(saved.values()))
    assert best is not None
    assert best.iteration in (4, 6)


@pytest.mark.slow
def test_a_task_without_commands_trains_as_if_it_were_not_there(
    cartpole_run: Run, train_run: Callable[..., Run], tmp_path: Path
) -> None:
    assert cartpole_run.config.eval_every == 0
    run = train_run("cartpole", tmp_path / "run", save_every=1, eval_every=1)
    assert rows(run.folder) == rows(cartpole_run.folder)
    assert not rows(run.folder)[-1].keys() & FIGURES


def test_fewer_falls_are_better_then_a_smaller_error_then_nothing_else(tmp_path: Path) -> None:
    def row(falls: int, pushed: int, error: float, value: float) -> dict[str, float]:
        figures = {"falls": falls, "pushed_falls": pushed, "velocity_error": error}
        return {f"eval/{name}": x for name, x in figures.items()} | {"episode_return": value}

    saves = [
        (1, row(3, 6, 0.1, 50.0)),
        (2, row(0, 4, 0.3, 10.0)),
        (3, row(4, 0, 0.2, 5.0)),  # as many fell, and it is more exact
        (4, {"episode_return": 99.0}),  # not evaluated
        (5, row(2, 3, 0.01, 60.0)),
    ]
    best = []
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        for iteration, metrics in saves:
            checkpoints.save(iteration, {"x": iteration}, metrics)
            checkpoints.wait()
            found = best_checkpoint(checkpoints.store.sound())
            best.append(found.iteration if found else None)
    assert best == [1, 2, 3, 3, 3]
    assert checkpoints.iterations() == [3, 5]


def test_without_an_evaluation_the_return_decides_and_never_beats_one_with() -> None:
    figures = {"falls": 10, "pushed_falls": 10, "velocity_error": 2.0}
    poor = score({"episode_return": None, "stage": 0, "evaluation": figures})
    unknown = score({"episode_return": 900.0, "stage": 2, "evaluation": None})
    broken = score({"episode_return": 3.0, "stage": 0, "evaluation": {**figures, "falls": None}})
    old = score({"episode_return": 1.0, "stage": 0})
    scores = [poor, unknown, broken, old]
    assert scores == sorted((one for one in scores if one is not None), reverse=True)
    assert score({"episode_return": None, "evaluation": None}) is None


def test_a_later_stage_is_better_among_evaluated_checkpoints() -> None:
    figures = {"falls": 0, "pushed_falls": 0, "velocity_error": 0.1}
    early = score({"stage": 1, "evaluation": figures})
    late = score({"stage": 2, "evaluation": {**figures, "falls": 1}})
    assert early is not None
    assert late is not None
    assert late > early


@pytest.mark.parametrize(("every", "save_every"), [(300, 2), (SAMPLES, 1), (5000, 3), (100, 4)])
def test_every_multiple_is_followed_by_one_evaluation_at_the_next_save(
    every: int, save_every: int
) -> None:
    config = replace(preset_config("g1_12dof"), eval_every=every, save_every=save_every)
    due = [i for i in range(1, 200) if is_due(config, i, i * SAMPLES, SAMPLES)]
    size = save_every * SAMPLES
    wanted = {-(-step // size) * save_every for step in range(every, 200 * SAMPLES, every)}
    assert due == sorted(i for i in wanted if i < 200)


def test_no_iteration_is_due_without_it_or_without_a_save() -> None:
    config = replace(preset_config("g1_12dof"), save_every=50, keep_every=0)
    for other in (replace(config, eval_every=0), replace(config, save_every=1000)):
        assert not any(is_due(other, i, i * 100_000, 100_000) for i in range(1, 200))


@pytest.mark.parametrize("robot", ["g1", "g1_12dof", "go1", "cartpole"])
def test_the_presets_of_robots_that_walk_have_it_and_older_runs_do_not(robot: str) -> None:
    assert (preset_config(robot).eval_every > 0) == (robot != "cartpole")
    assert migrations.as_now({"robot": robot, "num_envs": 16})["eval_every"] == 0


def test_the_plan_counts_its_memory_where_the_run_is_long_enough() -> None:
    cpu = Hardware("cpu", "EPYC", 1, 2, 16 * 10**9, 10 * 10**9, "psutil available")
    config = replace(preset_config("g1_12dof"), num_envs=64, physics="native")

    def expected(**changes: Any) -> int:
        return footprint(replace(config, **changes), cpu).total.total(64)

    never = expected(eval_every=0)
    assert expected(eval_every=10**6) > never
    assert expected(eval_every=10**6, timesteps=5 * 10**5) == never
