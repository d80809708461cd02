"""The examples run from end to end as users start them, only shorter."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ppo_cartpole", "own_robot"])
def test_an_example_trains(name, monkeypatch, capsys):
    argv = [f"{name}.py", "--iterations", "2", "--num-envs", "16"]
    monkeypatch.setattr(sys, "argv", argv)
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["iteration 1", "iteration 2"]
