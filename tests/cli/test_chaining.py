"""Sessions that chain into one run: equal to the bit on one machine, resumed on another."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxrl_hw import load_run
from jaxrl_hw.types import TrainState

SMALL = [
    *("--robot", "cartpole", "--num-envs", "8", "--no-tensorboard", "--save-every", "5"),
    *("--ppo.unroll", "4", "--ppo.epochs", "2", "--ppo.minibatch-size", "16"),
    *("--net.policy", "16", "--net.value", "16", "--cartpole.episode-s", "0.5"),
]
ENGINES = ("native", "mjx")

pytestmark = pytest.mark.slow  # every test trains


@pytest.fixture(scope="module")
def whole(tmp_path_factory, train_process):
    """whole(engine): the folder of 20 iterations in one session."""
    folders: dict[str, Path] = {}

    def run(engine: str) -> Path:
        if engine not in folders:
            folder = tmp_path_factory.mktemp(engine) / "run"
            flags = ("--physics", engine, "--run-dir", folder, "--iterations", "20")
            code, _, err = train_process(*SMALL, *flags)
            assert code == 0, err
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


@pytest.mark.parametrize("engine", ENGINES)
def test_three_sessions_equal_one_to_the_last_bit(
    engine, whole, tmp_path, train_process, reproducible
):
    for goal in (7, 13, 20):
        flags = ("--physics", engine, "--run-dir", tmp_path, "--iterations", str(goal))
        code, _, err = train_process(*SMALL, *flags)
        assert code == 0, err
    assert sessions(tmp_path) == [(1, 7), (8, 13), (14, 20)]
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
    change, values, whole, tmp_path, train_process, reproducible
):
    folder = tmp_path / "run"
    base = (*SMALL, "--run-dir", folder)
    assert train_process(*base, "--physics", "native", "--iterations", "10")[0] == 0
    before = load_run(folder)
    flags = {"--physics": "native", change[0]: change[1]}
    argv = [word for pair in flags.items() for word in pair]
    code, out, err = train_process(*base, *argv, "--iterations", "12")
    assert (code, err) == (0, "")
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
