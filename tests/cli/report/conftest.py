"""A run of two sessions that was really trained, and its report."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jaxrl_hw import Run, fit, preset_config
from jaxrl_hw.config import validation
from jaxrl_hw.config.resolve import sized
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.report import main

FEW = ("wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes")
"""Keys of a copied run's rows: every further one is a figure to draw."""
COUNTED = ("iteration", "env_steps", "episode_return")
DAMAGED = (b'{"iteration": 7, "env_st', b"\xff\xfe\x00", b"[1, 2]", b'{"iteration": 8}')
"""Lines that a crash or a bad disk leaves."""


class Reported(NamedTuple):
    """A run's folder, that of its report, and the rows of metrics.jsonl that are whole."""

    run: Path
    out: Path
    rows: list[dict[str, Any]]

    @property
    def summary(self) -> dict[str, Any]:
        return dict(json.loads((self.out / "summary.json").read_text()))

    @property
    def page(self) -> str:
        return (self.out / "report.html").read_text()


@pytest.fixture(scope="session")
def reported(train_run: Callable[..., Run], tmp_path_factory: pytest.TempPathFactory) -> Reported:
    """A cartpole's run of 2 and 4 iterations with damaged lines.

    Its report has a short film, where one can be drawn, a short replay, and a comparison with a run
    of another seed and one of other settings.
    """
    place = tmp_path_factory.mktemp("report")
    folder, out = place / "runs" / "pole", place / "out"
    task = replace(preset_config("cartpole").cartpole, episode_s=0.1)
    run = train_run("cartpole", folder, cartpole=task, save_every=1, keep=2)
    fit(replace(run.config, iterations=6), console=Console(io.StringIO()))
    metrics = folder / "metrics.jsonl"
    lines = metrics.read_bytes().splitlines()
    metrics.write_bytes(b"\n".join([*lines[:3], *DAMAGED[:2], *lines[3:], *DAMAGED[2:]]) + b"\n")
    others = [place / "runs" / name for name in ("seed", "gamma")]
    train_run("cartpole", others[0], cartpole=task, seed=1)
    train_run("cartpole", others[1], cartpole=task, ppo=replace(run.config.ppo, gamma=0.5))
    flags = ["--out", str(out), "--seconds", "0.4", "--compare", *map(str, others)]
    assert main(["--run-dir", str(folder), *flags]) == 0
    return Reported(folder, out, [json.loads(line) for line in lines])


@pytest.fixture
def copy_of(reported: Reported, tmp_path: Path) -> Callable[..., Path]:
    """copy_of(name, seed, returns, **settings as group__name): the run's small files in another
    folder, with other settings, and a row for each return."""

    def copy(name: str, seed: int, returns: list[float], **changes: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for file in ("config.json", "plan.json", "sessions.jsonl"):
            shutil.copy(reported.run / file, folder / file)
        record = json.loads((folder / "config.json").read_text())
        record["config"]["seed"] = seed
        for key, value in changes.items():
            group, _, setting = key.partition("__")
            record["config"][group][setting] = value
        (folder / "config.json").write_text(json.dumps(record))
        few = {name: reported.rows[0][name] for name in FEW}
        rows = (
            {**few, "iteration": i, "env_steps": 100 * i, "episode_return": value}
            for i, value in enumerate(returns, 1)
        )
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return folder

    return copy


@pytest.fixture
def walker(tmp_path: Path, reported: Reported) -> Path:
    """A run of another robot, made by hand."""
    folder = tmp_path / "walker"
    folder.mkdir()
    config = replace(preset_config("go1"), num_envs=16, run_dir=str(folder))
    record = {"config": validation.to_dict(sized(config, 16)), "versions": {}}
    (folder / "config.json").write_text(json.dumps(record))
    shutil.copy(reported.run / "sessions.jsonl", folder / "sessions.jsonl")
    few = ({name: row[name] for name in (*FEW, *COUNTED)} for row in reported.rows)
    rows = ({**row, "eval/falls": 1, "eval/velocity_error": 0.1} for row in few)
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder
