"""Sessions that chain into one run: equal to the bit on one machine, resumed on another."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl_hw import load_run
from jaxrl_hw.train import main
from jaxrl_hw.types import TrainState

SMALL = [
    *("--robot", "cartpole", "--num-envs", "8", "--no-tensorboard", "--save-every", "5"),
    *("--ppo.unroll", "4", "--ppo.epochs", "2", "--ppo.minibatch-size", "16"),
    *("--net.policy", "16", "--net.value", "16", "--cartpole.episode-s", "0.5"),
]

pytestmark = pytest.mark.slow  # every test trains


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """whole(engine): the folder of 20 iterations in one session."""
    folders: dict[str, Path] = {}

    def run(engine: str) -> Path:
        if engine not in folders:
            folder = tmp_path_factory.mktemp(engine) / "run"
            flags = ("--physics", engine, "--run-dir", str(folder), "--iterations", "20")
            assert main([*SMALL, *flags]) == 0
            folders[engine] = folder
        return folders[engine]

    return run


def leaves(state: TrainState) -> dict[str, np.ndarray]:
    """Every array of a state by its path, random keys as their bits."""

    def bits(leaf: jax.Array) -> np.ndarray:
        is_key = jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)
        return np.asarray(jax.random.key_data(leaf) if is_key else leaf)

    found = jax.tree_util.tree_leaves_with_path(state)
    return {jax.tree_util.keystr(path): bits(leaf) for path, leaf in found}


def sessions(folder: Path) -> list[tuple[int, int]]:
    lines = map(json.loads, (folder / "sessions.jsonl").read_text().splitlines())
    return [(line["first_iteration"], line["last_iteration"]) for line in lines]


@pytest.fixture(scope="module")
def half(tmp_path_factory) -> Path:
    """The folder of 10 iterations on the C engine. A test that continues it takes a copy."""
    folder = tmp_path_factory.mktemp("half") / "run"
    argv = [*SMALL, "--physics", "native", "--run-dir", str(folder), "--iterations", "10"]
    assert main(argv) == 0
    return folder


@pytest.mark.parametrize(("engine", "goals"), [("native", (7, 13, 20)), ("mjx", (13, 20))])
def test_several_sessions_equal_one_to_the_last_bit(
    engine, goals, whole, tmp_path, train_process, reproducible
):
    for goal in goals:
        flags = ("--physics", engine, "--run-dir", str(tmp_path), "--iterations", str(goal))
        if goal == goals[0]:
            assert main([*SMALL, *flags]) == 0
            continue
        code, _, err = train_process(*SMALL, *flags)  # a new process knows the folder alone
        assert code == 0, err
    assert sessions(tmp_path) == list(zip((1, *(n + 1 for n in goals)), goals, strict=False))
    assert sessions(whole(engine)) == [(1, 20)]
    rows = reproducible(tmp_path)
    assert len(rows) == 20
    assert rows == reproducible(whole(engine))
    chained, undisturbed = leaves(load_run(tmp_path).state), leaves(load_run(whole(engine)).state)
    assert chained.keys() == undisturbed.keys()
    for name, leaf in undisturbed.items():
        assert chained[name].dtype == leaf.dtype, name
        assert chained[name].tobytes() == leaf.tobytes(), name


@pytest.mark.parametrize(
    ("change", "values"),
    [
        (("--physics", "mjx"), ("physics", '"native"', '"mjx"')),
        (("--precision", "bfloat16"), ("precision", '"float32"', '"bfloat16"')),
        (("--num-envs", "16"), ("num_envs", "8", "16")),
    ],
)
def test_another_machine_resumes_the_run_and_names_what_is_no_longer_the_same(
    change, values, whole, half, tmp_path, capsys, reproducible
):
    folder = Path(shutil.copytree(half, tmp_path / "run"))
    before = load_run(folder)
    flags = {"--physics": "native", change[0]: change[1]}
    argv = [word for pair in flags.items() for word in pair]
    capsys.readouterr()
    assert main([*SMALL, "--run-dir", str(folder), *argv, "--iterations", "12"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert all(value in out for value in values)
    after = load_run(folder)
    # the learner continued: its counters, its optimizer and its normalizer were not reset
    steps = 2 * 4 * int(flags.get("--num-envs", 8))
    assert after.iteration == 12
    assert after.metrics["env_steps"][-1] == before.metrics["env_steps"][-1] + steps
    assert reproducible(folder)[:10] == reproducible(whole("native"))[:10]
    shift = jax.tree.map(
        lambda a, b: float(abs(b - a).max()), before.state.params, after.state.params
    )
    assert 0 < max(jax.tree.leaves(shift)) < 0.1
