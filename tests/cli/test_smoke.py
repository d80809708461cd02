"""`train --smoke` fails where any part of a run does not work. `make smoke` is the real thing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from jaxrl_hw.cli.smoke import smoke
from jaxrl_hw.train import main

SMALL = [
    *("--robot", "cartpole", "--num-envs", "8", "--no-tensorboard", "--cartpole.episode-s", "0.5"),
    *("--ppo.unroll", "4", "--ppo.epochs", "1", "--net.policy", "16", "--net.value", "16"),
]


def test_bad_flags_are_bad_input(capfd):
    assert main(["--smoke", "--robot", "cartpol"]) == 2
    out, err = capfd.readouterr()
    assert '"cartpole"' in err
    assert "pass" not in out


class Played:
    """Commands that leave files as real ones do, but for one fault."""

    def __init__(self, fault: str) -> None:
        self.fault, self.seen = fault, list[str]()

    def __call__(self, words: Sequence[str]) -> int:
        self.seen.append(words[0])
        flags = dict(itertools.pairwise(words))
        folder = Path(flags["--run-dir"])
        if words[0] == self.fault:
            return 1
        if words[0] == "train":
            goal = int(flags["--iterations"])
            start = 1 if self.fault == "resume" else goal
            (folder / "checkpoints" / str(goal)).mkdir(parents=True)
            for name, row in (
                ("metrics.jsonl", {"iteration": goal}),
                ("sessions.jsonl", {"first_iteration": start}),
            ):
                with (folder / name).open("a") as file:
                    file.write(json.dumps(row) + "\n")
        if words[0] == "evaluate":
            figure = None if self.fault == "figures" else 1.0
            Path(flags["--json"]).write_text(json.dumps({"mean": {"return": figure}}))
        return 0


@pytest.mark.parametrize(
    ("fault", "code", "tried"),
    [
        ("", 0, ["plan", "train", "train", "evaluate"]),
        ("plan", 1, ["plan"]),
        ("train", 1, ["plan", "train"]),
        ("resume", 1, ["plan", "train", "train"]),
        ("evaluate", 1, ["plan", "train", "train", "evaluate"]),
        ("figures", 1, ["plan", "train", "train", "evaluate"]),
    ],
)
def test_any_fault_fails(fault, code, tried, capsys):
    run = Played(fault)
    assert smoke(["--smoke", *SMALL], run) == code
    assert run.seen == tried
    assert ("FAIL" in capsys.readouterr().err) == (code == 1)
