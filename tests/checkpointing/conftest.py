"""Runs that were never trained: folders of the right form, made in a moment."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jaxrl_hw import preset_config
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.config import validation


def make_run(
    folder: Path,
    returns: Mapping[int, float | None] | None = None,
    goal: int = 40,
    rows: int = 20,
) -> Path:
    """A run of one session: `returns` are the episode_return of its checkpoints by iteration."""
    returns = {10: 3.5, 20: 2.5} if returns is None else returns
    run = RunDir(folder)
    run.prepare()
    config = preset_config("cartpole")
    config = replace(
        config, num_envs=16, iterations=goal, run_dir="/old/machine/runs/x", mirror="/old/drive"
    )
    run.write_config(validation.to_dict(config))
    run.write_plan({"num_envs": 16})
    lines = ({"iteration": i, "episode_return": float(i)} for i in range(1, rows + 1))
    run.metrics_jsonl.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for iteration, value in returns.items():
        save = run.checkpoints / str(iteration)
        for name in ("meta", "state/d"):
            (save / name).mkdir(parents=True)
        meta = {"iteration": iteration, "episode_return": value, "leaves": {}}
        (save / "meta/metadata").write_text(json.dumps(meta))
        noise = np.random.default_rng(iteration).bytes(5000)
        (save / "state/d/arrays").write_bytes(noise)
    run.append_session(
        {
            "started": "2026-01-02T03:04:05+0000",
            "hardware": "Tesla T4",
            "platform": "gpu",
            "physics": "mjx",
            "num_envs": 16,
            "first_iteration": 1,
            "last_iteration": rows,
            "seconds": 125.0,
            "ended": "time limit",
        }
    )
    return folder


@pytest.fixture(scope="session")
def new_run() -> Callable[..., Path]:
    """new_run(folder, returns, goal, rows): a run's folder."""
    return make_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with a newest checkpoint, 20, and a best one, 10."""
    return make_run(tmp_path / "runs" / "walker")
