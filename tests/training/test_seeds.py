"""Several seeds in one program: each is what it is alone, in a folder of its own."""

from __future__ import annotations

import io
import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import chex
import jax
import numpy as np
import pytest
from jax import monitoring
from mujoco import batch

from jaxrl_hw import (
    Config,
    NetConfig,
    fit,
    fit_seeds,
    init_train_state,
    load_run,
    make_train_step,
    preset_config,
    train,
)
from jaxrl_hw.cli.run_summary import summarize
from jaxrl_hw.envs.vector import make_key
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.run import environments
from jaxrl_hw.training.stacked import Stacked
from jaxrl_hw.training.train_step import FirstStates
from jaxrl_hw.types import TrainState

SEEDS = (3, 5)
CLOCK = {"wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes"}


def tiny(folder: Path, **changes: Any) -> Config:
    base = preset_config("cartpole")
    ppo = replace(base.ppo, unroll=4, epochs=2, minibatch_size=32)
    config = replace(
        base,
        num_envs=8,
        iterations=3,
        run_dir=str(folder),
        physics="native",
        tensorboard=False,
        net=NetConfig(policy=(8,), value=(8,)),
        ppo=ppo,
    )
    return replace(config, **changes)


def side_by_side(states: list[TrainState]) -> TrainState:
    return jax.tree.map(lambda *leaves: jax.numpy.stack(leaves), *states)


def quiet() -> Console:
    return Console(io.StringIO())


def rows(folder: Path) -> list[dict[str, Any]]:
    read = [json.loads(line) for line in (folder / "metrics.jsonl").open()]
    return [{k: v for k, v in row.items() if k not in CLOCK} for row in read]


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two seeds of three iterations."""
    folder = tmp_path_factory.mktemp("seeds") / "both"
    runs = fit_seeds(tiny(folder), SEEDS, console=quiet())
    assert [(run.iteration, run.ended) for run in runs] == [(3, "goal")] * 2
    return folder


def test_each_seed_learns_what_it_learns_alone(two, tmp_path):
    for seed in SEEDS:
        alone = fit(tiny(tmp_path / str(seed), seed=seed), console=quiet())
        together = load_run(two / f"seed-{seed}")
        for name, values in alone.metrics.items():
            if name not in CLOCK and None not in values:
                got = together.metrics[name]
                np.testing.assert_allclose(got, values, rtol=1e-4, atol=1e-6, err_msg=name)
        of_both = [jax.tree.leaves(run.state.params) for run in (alone, together)]
        for mine, other in zip(*of_both, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-6)


def test_first_states_of_further_seeds_compile_nothing(tmp_path):
    """Each is what the seed begins with alone."""
    env, algorithm = environments(tiny(tmp_path))
    states, compiled = FirstStates(env, algorithm), []
    jax.block_until_ready(states(0))
    monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
    )
    further = jax.block_until_ready(states(1))
    assert compiled == []
    chex.assert_trees_all_equal(further, init_train_state(env, algorithm, 1))
    assert compiled != []


def test_on_mjx_each_seed_is_what_it_is_alone(tmp_path):
    """Three iterations of the train step, by itself and vmapped."""
    env, algorithm = environments(tiny(tmp_path, physics="mjx"))
    states = [init_train_state(env, algorithm, seed) for seed in SEEDS]
    together = side_by_side(states)
    step = make_train_step(env, algorithm)
    step_both = make_train_step(env, algorithm, Stacked(2))
    for _ in range(3):
        states, metrics = zip(*[step(state) for state in states], strict=True)
        together, of_both = step_both(together)
    for i in range(2):
        found = jax.tree.map(lambda x: x[i], (together._replace(key=()), of_both))  # noqa: B023
        alone = states[i]._replace(key=()), metrics[i]
        chex.assert_trees_all_close(found, jax.tree.map(np.asarray, alone), rtol=1e-4, atol=1e-6)


def test_the_native_engine_steps_all_seeds_in_one_call(tmp_path, monkeypatch):
    sizes, real = [], batch.Batch

    def recorded(model: Any, number: int, threads: int) -> Any:
        sizes.append(number)
        return real(model, number, threads)

    monkeypatch.setattr(batch, "Batch", recorded)
    env, algorithm = environments(tiny(tmp_path))
    together = side_by_side([init_train_state(env, algorithm, seed) for seed in SEEDS])
    jax.block_until_ready(make_train_step(env, algorithm, Stacked(2))(together))
    assert sizes == [16]


def test_the_same_call_continues_every_seed_to_the_bit(two, tmp_path):
    part, whole = tmp_path / "part", tmp_path / "whole"
    shutil.copytree(two, part)
    fit_seeds(tiny(part, iterations=5), SEEDS, console=quiet())
    fit_seeds(tiny(whole, iterations=5), SEEDS, console=quiet())
    for seed in SEEDS:
        found = rows(part / f"seed-{seed}")
        assert [row["iteration"] for row in found] == [1, 2, 3, 4, 5]
        assert found == rows(whole / f"seed-{seed}")


def test_replays_lie_where_they_lie_from_step_to_step(tmp_path):
    """All seeds' in one place, which every step donates to the next; none has one of its own."""
    slots, found = 503, []
    base = preset_config("cartpole", algo="sac")
    sac = replace(base.sac, buffer_size=8 * slots, learning_starts=64, batch_size=16)
    net = NetConfig(policy=(8,), value=(8,))
    config = replace(base, num_envs=8, iterations=6, physics="native", tensorboard=False, net=net)
    config = replace(config, sac=sac, run_dir=str(tmp_path), save_replay="yes")

    def look(seed: int, row: dict[str, Any]) -> None:
        if row["iteration"] == 6:
            return
        live = [x for x in jax.live_arrays() if slots in x.shape[:2]]
        found.append({x.unsafe_buffer_pointer() for x in live})
        assert {x.shape[:2] for x in live} == {(2, slots)}

    runs = fit_seeds(config, SEEDS, look, quiet())
    assert len(found) == 10
    assert all(places == found[0] for places in found)
    for run in runs:  # each has its own in the end
        assert run.state.replay.reward.shape == (slots, 8)
        chex.assert_trees_all_equal(run.state.replay, load_run(run.folder).state.replay)
    assert not np.array_equal(*[run.state.replay.reward for run in runs])


def test_seeds_say_that_checkpoints_without_the_replay_are_not_exact(tmp_path):
    base = preset_config("cartpole", algo="sac")
    sac = replace(base.sac, buffer_size=512, learning_starts=64, batch_size=16)
    net = NetConfig(policy=(8,), value=(8,))
    config = replace(base, num_envs=8, iterations=2, physics="native", tensorboard=False, net=net)
    config = replace(config, sac=sac, run_dir=str(tmp_path))
    for saved in ("yes", "no"):
        folder = tmp_path / saved
        fit_seeds(replace(config, save_replay=saved, run_dir=str(folder)), SEEDS, console=quiet())
        for seed in SEEDS:
            found = summarize(folder / f"seed-{seed}").checkpoints
            assert [save.is_exact for save in found] == [saved == "yes"]


def test_a_seed_continues_alone(two, tmp_path):
    part = tmp_path / "seed-5"
    shutil.copytree(two / "seed-5", part)
    run = fit(replace(load_run(part).config, iterations=4), console=quiet())
    assert (run.iteration, run.config.seeds) == (4, 1)


def test_a_seed_that_is_stopped_leaves_the_others_going(tmp_path):
    def stop_5(seed: int, row: dict[str, Any]) -> bool:
        return seed == 5 and row["iteration"] == 1

    runs = fit_seeds(tiny(tmp_path), SEEDS, stop_5, quiet())
    assert [(run.iteration, run.ended) for run in runs] == [(3, "goal"), (1, "callback")]


def test_a_signal_stops_all_saved(tmp_path):
    def interrupt(seed: int, row: dict[str, Any]) -> None:
        if (seed, row["iteration"]) == (5, 1):
            signal.raise_signal(signal.SIGTERM)

    runs = fit_seeds(tiny(tmp_path, iterations=50), SEEDS, interrupt, quiet())
    assert [run.ended for run in runs] == ["SIGTERM"] * 2
    assert all(1 <= run.iteration <= 2 for run in runs)
    assert [load_run(run.folder).iteration for run in runs] == [run.iteration for run in runs]


def test_a_seed_that_fails_leaves_the_others_saved(tmp_path):
    def fail(seed: int, row: dict[str, Any]) -> None:
        if (seed, row["iteration"]) == (5, 2):
            raise RunError("the disk is gone")

    with pytest.raises(RunError, match="the disk is gone"):
        fit_seeds(tiny(tmp_path, iterations=50), SEEDS, fail, quiet())
    assert load_run(tmp_path / "seed-3").iteration in (2, 3)


def test_draws_over_seeds_are_those_of_each_seed():
    def draw(key):
        of_envs = jax.vmap(jax.random.uniform)(jax.random.split(key, 3))
        return of_envs, jax.random.normal(jax.random.fold_in(key, 7), (2,))

    keys = jax.numpy.stack([make_key(seed) for seed in (1, 2, 3)])
    together = jax.jit(Stacked(3).each(draw))(keys)
    for i, seed in enumerate((1, 2, 3)):
        for mine, all_of_them in zip(jax.jit(draw)(make_key(seed)), together, strict=True):
            np.testing.assert_array_equal(mine, all_of_them[i])


def test_the_flag_trains_the_seeds_from_seed_on(tmp_path):
    words = ["--robot", "cartpole", "--num-envs", "8", "--iterations", "1", "--physics", "native"]
    words += ["--no-tensorboard", "--ppo.unroll", "4", "--net.policy", "8", "--net.value", "8"]
    words += ["--seeds", "2", "--seed", "4", "--run-dir", str(tmp_path / "run")]
    assert train.main(words) == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["seed-4", "seed-5"]
    assert load_run(tmp_path / "run" / "seed-5").config.seed == 5


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--devices", "1"], "--devices"),
        (["--wandb", "offline"], "--wandb"),
        (["--resume", "somewhere"], "--resume"),
    ],
)
def test_what_does_not_go_with_seeds_is_one_line(more, named, tmp_path, capsys):
    words = ["--robot", "cartpole", "--seeds", "2", "--run-dir", str(tmp_path / "run")]
    assert train.main([*words, *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line
    assert not (tmp_path / "run").exists()


def test_one_run_is_no_folder_of_seeds(two):
    with pytest.raises(UserError, match="is a run itself"):
        fit_seeds(tiny(two / "seed-3"), SEEDS, console=quiet())
    with pytest.raises(UserError, match="fit_seeds"):
        fit(tiny(two, seeds=2), console=quiet())
