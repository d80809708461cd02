"""`--algo`: each algorithm trains, continues to the bit and exports by the same commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from jaxrl_hw import UserError, export, load_run, make_plan, plan, runs, train
from jaxrl_hw.checkpointing.leaves import to_arrays
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.cli.run_summary import summarize
from jaxrl_hw.config.validation import to_dict
from jaxrl_hw.policies.io import load_policy

TINY = [
    *("--physics", "native", "--num-envs", "8", "--no-tensorboard", "--save-every", "2"),
    *("--cartpole.episode-s", "0.5", "--iterations", "4"),
]
REPLAY = {"buffer-size": 600, "batch-size": 32, "learning-starts": 64, "gradient-steps": 2}


def knobs(algo: str, **changed: Any) -> list[str]:
    values = {**REPLAY, **{name.replace("_", "-"): v for name, v in changed.items()}}
    return [word for name, v in values.items() for word in (f"--{algo}.{name}", str(v))]


NETS = ["--net.policy", "8", "--net.value", "8"]
ALGORITHMS = {
    "a2c": ["--robot", "cartpole", "--algo", "a2c", "--a2c.n-steps", "4", *NETS],
    "dqn": ["--robot", "cartpole_discrete", "--algo", "dqn", "--dqn.widths", "8", *knobs("dqn")],
    "sac": [
        *("--robot", "cartpole", "--algo", "sac", "--net.memory", "history", "--sac.n-step", "3"),
        *knobs("sac"),
        *NETS,
    ],
}


def rows(folder: Path) -> list[dict[str, Any]]:
    clock = {"wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes"}
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{key: value for key, value in row.items() if key not in clock} for row in lines]


@pytest.fixture(scope="module", params=ALGORITHMS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An algorithm's name and a run of it, four iterations without a break."""
    folder = tmp_path_factory.mktemp(request.param) / "run"
    words = [*ALGORITHMS[request.param], *TINY, "--run-dir", str(folder)]
    assert train.main(words) == 0
    return request.param, words, folder


@pytest.mark.slow
def test_a_run_continues_to_the_bit(run: Any, tmp_path: Path) -> None:
    algo, words, whole = run
    part = tmp_path / "part"
    shutil.copytree(whole, part)
    shutil.rmtree(part / "checkpoints" / "4")
    assert train.main([*words[:-1], str(part)]) == 0
    assert rows(part) == rows(whole)
    assert len(rows(part)) == 4
    ended, continued = (to_arrays(load_run(folder).state)[0] for folder in (whole, part))
    assert set(ended) == set(continued)
    for name, array in ended.items():
        np.testing.assert_array_equal(array, continued[name], err_msg=name)
    (saved,) = summarize(whole).checkpoints[-1:]
    assert saved.is_exact
    assert json.loads((whole / "plan.json").read_text())["exact_resume"]
    if algo != "a2c":
        assert rows(whole)[-1]["gradient_steps"] == 2
        assert rows(whole)[-1]["replay_filled"] == 4 * 8 * 8 > 64
        assert "replay.obs.policy" in ended


@pytest.mark.slow
def test_its_policy_is_exported(run: Any, tmp_path: Path) -> None:
    algo, _, folder = run
    assert export.main(["--run-dir", str(folder), "--out", str(tmp_path)]) == 0
    policy = load_policy(tmp_path / "policy.npz")
    heads = {"a2c": "linear", "dqn": "argmax", "sac": "tanh"}
    assert (policy.meta["algo"], policy.head_kind) == (algo, heads[algo])
    assert policy.action_size == 1
    obs = np.random.default_rng(0).standard_normal((200, 5)).astype(np.float32)
    actions = policy(obs)
    assert (np.abs(actions) <= 1.0).all() or algo == "a2c"
    expected = np.asarray(load_run(folder).policy(obs))
    assert np.mean(np.abs(actions - expected) < 1e-5) > 0.98, "but for ties of a discrete policy"


@pytest.mark.slow
def test_another_algorithm_does_not_continue_a_run(run: Any, capsys: Any) -> None:
    algo, _, folder = run
    other = "ppo" if algo == "a2c" else "a2c"
    assert train.main(["--robot", "cartpole", "--algo", other, "--run-dir", str(folder)]) == 2
    assert algo in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_without_its_replay_in_the_checkpoint_starts_with_an_empty_one(
    tmp_path: Path, capsys: Any
) -> None:
    words = [*ALGORITHMS["dqn"], *TINY, "--save-replay", "no", "--run-dir", str(tmp_path / "run")]
    assert train.main([*words, "--iterations", "2"]) == 0
    capsys.readouterr()
    assert runs.main(["show", str(tmp_path / "run"), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert not shown["exact_resume"]
    assert [save["exact_resume"] for save in shown["checkpoints"]] == [False]
    assert not json.loads((tmp_path / "run" / "plan.json").read_text())["exact_resume"]
    state = load_run(tmp_path / "run").state
    assert not jax.tree.leaves(state.replay)
    assert json.loads((tmp_path / "run/config.json").read_text())["config"]["save_replay"] == "no"
    assert train.main(words) == 0
    filled = [row["replay_filled"] for row in rows(tmp_path / "run")]
    assert filled == [64, 128, 64, 128]
    assert "replay" in capsys.readouterr().out


CARTPOLE, DISCRETE = ["--robot", "cartpole"], ["--robot", "cartpole_discrete"]
SAC, DQN = [*CARTPOLE, "--algo", "sac"], [*DISCRETE, "--algo", "dqn"]
BAD = {
    "continuous actions for dqn": [*CARTPOLE, "--algo", "dqn"],
    "discrete actions for ppo": DISCRETE,
    "discrete actions for sac": [*DISCRETE, "--algo", "sac"],
    "too many actions": ["--robot", "go1", "--algo", "dqn", "--discrete-actions", "3"],
    "one action": [*CARTPOLE, "--algo", "dqn", "--discrete-actions", "1"],
    "a recurrent policy": [*SAC, "--net.memory", "gru"],
    "several devices": [*SAC, "--devices", "1"],
    "a batch above the replay": [*SAC, *knobs("sac", batch_size=1000, buffer_size=700)],
    "starts above the replay": [*SAC, *knobs("sac", learning_starts=5000)],
    "starts beyond the goal": [
        *(*SAC, "--timesteps", "10k"),
        *knobs("sac", learning_starts=20_000, buffer_size=50_000),
    ],
    "a replay of too few steps": [*SAC, *knobs("sac"), "--num-envs", "256"],
    "a setting of another algorithm": [*SAC, "--ppo.gamma", "0.9"],
    "a prior of a task that has no motion": [*SAC, "--sac.prior-coef", "0.1"],
    "a motion of a task that has none": [*CARTPOLE, "--ppo.motion-prior"],
    "a prior that is turned off": [
        *("--robot", "go1", "--algo", "sac", "--sac.no-motion-prior", "--sac.prior-coef", "0.1"),
    ],
    "steps of a prior without weight": [
        *("--robot", "go1", "--algo", "sac", "--sac.prior-coef", "0", "--sac.prior-steps", "9"),
    ],
    "symmetry of a robot without a mirror image": [*CARTPOLE, "--ppo.symmetry", "loss"],
    "a weight of no mirror loss": ["--robot", "go1", "--ppo.symmetry-coef", "2"],
    "noise at the end of no annealing": [*CARTPOLE, "--ppo.end-std", "0.1"],
    "an estimate of what the policy sees": [*CARTPOLE, "--ppo.estimation-coef", "0.5"],
    "a window without a history": [*CARTPOLE, "--net.history", "4"],
    "a width without a recurrent unit": [*CARTPOLE, "--net.memory", "history", "--net.gru", "9"],
    "a memory of an algorithm that has none": [
        *(*CARTPOLE, "--algo", "examples.own_algorithm", "--net.memory", "gru"),
    ],
    "a replay of an algorithm that has none": [
        *(*CARTPOLE, "--algo", "examples.own_algorithm", "--save-replay", "no"),
    ],
    "a motion prior": [*SAC, "--ppo.no-motion-prior"],
    "a setting that is not its own": [*SAC, "--sac.symmetry", "loss"],
    "a network that it has not": [*DQN, "--net.value", "32"],
    "no replay to save": [*CARTPOLE, "--save-replay", "yes"],
    "a warm start": ["--robot", "go1", "--algo", "sac", "--init-from", "zoo:go1"],
    "no such algorithm": [*CARTPOLE, "--algo", "sacc"],
    "layers without units": [*DQN, "--dqn.widths", "0"],
    "one return": [*SAC, "--sac.atoms", "1"],
    "returns that fall": [*SAC, "--sac.atoms", "101", "--sac.return-range", "5", "-5"],
    "returns without atoms": [*SAC, "--sac.return-range", "-5", "5"],
}


@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    words: list[str], tmp_path: Path, capsys: Any
) -> None:
    folder = tmp_path / "run"
    assert train.main([*words, "--run-dir", str(folder)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not folder.exists()


GOOD = {
    "a prior that is asked for nothing": [*SAC, "--sac.prior-coef", "0", "--sac.no-motion-prior"],
    "no symmetry": [*CARTPOLE, "--ppo.symmetry", "none"],
    "a prior": ["--robot", "go1", "--algo", "sac", "--sac.prior-coef", "0.1"],
    "a mirror loss": ["--robot", "go1", "--ppo.symmetry", "loss", "--ppo.symmetry-coef", "2"],
    "a window": [*SAC, "--net.memory", "history", "--net.history", "4"],
    "a recurrent unit": [*CARTPOLE, "--net.memory", "gru", "--net.gru", "9"],
    "no memory": [*CARTPOLE, "--algo", "examples.own_algorithm", "--net.memory", "none"],
    "annealing": [*CARTPOLE, "--ppo.anneal-steps", "1M", "--ppo.end-std", "0.1"],
}


@pytest.mark.parametrize("words", GOOD.values(), ids=GOOD)
def test_what_has_an_effect_is_taken(words: list[str], tmp_path: Path) -> None:
    config = parse([*words, "--run-dir", str(tmp_path)])
    assert parse(["--config", _file(config, tmp_path), "--run-dir", str(tmp_path)]) == config


def _file(config: Any, folder: Path) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(to_dict(config)))
    return str(path)


def test_a_config_file_is_held_to_the_same(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    file.write_text("robot: cartpole\nalgo: a2c\nppo: {gamma: 0.9}\n")
    with pytest.raises(UserError, match=r"ppo\.gamma"):
        parse(["--config", str(file)])
    file.write_text("robot: cartpole\nalgo: a2c\na2c: {gamma: 0.9}\n")
    assert parse(["--config", str(file)]).a2c.gamma == 0.9


def test_a_replay_larger_than_memory_is_refused_with_what_fits() -> None:
    words = [*SAC, "--num-envs", "8", "--memory-limit", "900MB", "--sac.buffer-size", "500M"]
    with pytest.raises(UserError, match="at most") as refused:
        make_plan(parse(words))
    most = int(str(refused.value).split("at most ")[1].split()[0].replace(",", ""))
    fits = make_plan(parse([*words[:-1], str(most)]))
    assert fits.sizing.expected_bytes <= 900_000_000
    with pytest.raises(UserError):
        make_plan(parse([*words[:-1], str(int(1.02 * most))]))


@pytest.mark.parametrize("limit", ["1200MB", "1500MB"])
def test_an_auto_replay_takes_what_is_left(limit: str) -> None:
    words = [*SAC, "--num-envs", "8", "--timesteps", "100M", "--sac.buffer-size", "auto"]
    made = make_plan(parse([*words, "--memory-limit", limit]))
    capacity, budget = made.config.sac.buffer_size, made.sizing.budget_bytes
    assert 0.98 * budget < made.sizing.expected_bytes <= budget
    assert made.memory["replay"] > 0.3 * budget
    assert made.config.save_replay == "no"
    assert any("replay" in note for note in made.warnings)
    assert capacity < 100_000_000
    short = make_plan(parse([*words, "--memory-limit", limit, "--timesteps", "100k"]))
    assert short.config.sac.buffer_size == 100_032, "of the whole run"


def test_copies_of_a_replay_count_where_checkpoints_have_it_and_the_memory_is_the_same() -> None:
    words = [*SAC, "--num-envs", "8", "--timesteps", "100M", "--sac.buffer-size"]
    given = make_plan(parse([*words, "1M"])).memory
    assert 2.0 * given["replay"] < given["saving"] < 4.0 * given["replay"]
    assert "saving" not in make_plan(parse([*words, "1M", "--save-replay", "no"])).memory
    limit = ["--memory-limit", "1500MB", "--save-replay", "yes"]
    filled = make_plan(parse([*words, "auto", *limit]))
    assert filled.memory["replay"] > 50_000_000
    assert filled.sizing.expected_bytes <= filled.sizing.budget_bytes


def test_a_gpu_keeps_no_copies_of_a_replay(capsys: Any) -> None:
    assert plan.main([*SAC, "--gpu", "t4", "--save-replay", "yes", "--json"]) == 0
    assert "saving" not in json.loads(capsys.readouterr().out)["predicted_bytes"]


def test_the_device_decides_what_is_left_open() -> None:
    here = make_plan(parse([*DQN, "--num-envs", "32"]))
    there = plan.main([*DQN, "--num-envs", "32", "--gpu", "t4", "--json"])
    assert there == 0
    settings = here.config.dqn
    assert (settings.buffer_size, settings.batch_size, settings.widths) == (10_000, 32, (128, 128))
    assert "256-256-256" in dict(here.rows())["learner"]


def test_a_plan_shows_the_replay_and_each_part_of_the_learner(capsys: Any) -> None:
    assert plan.main([*SAC, "--num-envs", "32", "--gpu", "t4", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["predicted_bytes"]["replay"] > 1_000_000
    parts, items = found["predicted_by_part"], found["predicted_bytes"]
    names = ["replay", "actor", "critics", "targets", "optimizer", "batch and gradients"]
    assert list(parts) == [*names, "environments", "overhead"]
    assert sum(parts.values()) == items["total"]
    assert parts["replay"] == items["replay"]
    assert parts["actor"] + parts["critics"] + parts["targets"] <= items["networks"]
    assert min(parts.values()) > 0
    assert plan.main([*CARTPOLE, "--gpu", "t4", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["predicted_by_part"] is None
    shown = dict(make_plan(parse([*SAC, "--num-envs", "32"])).rows())
    for part in ("actor", "critics", "targets", "optimizer", "batch"):
        assert part in shown["learner"]
    assert "200,000" in shown["replay"]
