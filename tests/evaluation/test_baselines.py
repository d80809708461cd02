"""The policies that a trained one must beat, and the command that measures them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jaxrl_hw.errors import UserError
from jaxrl_hw.evaluate import main
from jaxrl_hw.evaluation.baselines import baseline


def test_home_does_nothing_and_random_does_the_same_in_every_drive() -> None:
    obs = np.zeros((3, 47))
    home = baseline("home", "g1_12dof", 0).policy
    np.testing.assert_array_equal(home.step(obs, home.start(3))[0], np.zeros((3, 12)))

    def drawn(seed: int) -> list[np.ndarray]:
        policy = baseline("random", "g1_12dof", seed).policy
        twice = []
        for _ in range(2):
            memory = policy.start(3)
            twice.append(np.stack([policy.step(obs, memory)[0] for _ in range(200)]))
        np.testing.assert_array_equal(*twice)
        return twice[0]

    first, other = drawn(0), drawn(1)
    assert first.shape == (200, 3, 12)
    assert np.abs(first).max() <= 1.0
    assert first.std() == pytest.approx(np.sqrt(1 / 3), rel=0.05)
    assert not np.array_equal(first, other)
    with pytest.raises(UserError, match="random"):
        baseline("randon", "g1_12dof", 0)


@pytest.mark.slow
def test_the_command_measures_them(capsys: pytest.CaptureFixture[str]) -> None:
    def rows(*argv: str) -> list[dict[str, float]]:
        assert main([*argv, "--robot", "cartpole", "--seconds", "2", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["robot"], found["iteration"]) == ("cartpole", 0)
        rows: list[dict[str, float]] = found["rows"]
        return rows

    home, random, again = rows("--policy", "home"), *(rows("--policy", "random") for _ in range(2))
    assert random == again
    assert random != home
    assert random != rows("--policy", "random", "--seed", "1")
    assert all(row["upright_share"] < 0.5 for row in home), "a pole that hangs stays so"


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--policy", "home"], "--robot"),
        (["--policy", "hom"], '"home"'),
        (["--policy", "random", "--robot", "g11"], "g11"),
        (["--policy", "home", "--robot", "g1", "--run-dir", "x"], "both"),
        (["--policy", "home", "--robot", "g1", "--iteration", "3"], "--iteration"),
    ],
)
def test_bad_input_is_one_line(
    argv: list[str], word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert word in error
