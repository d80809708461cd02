"""What the commands' tests share: the command as a process of its own, and what two runs share."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

BY_THE_CLOCK = {"wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes"}
"""The only keys of metrics.jsonl that two equal runs may differ in."""


@pytest.fixture(scope="session")
def train_process() -> Callable[..., tuple[int, str, str]]:
    """train_process(*flags): exit code, stdout and stderr of `python -m jaxrl_hw.train`."""

    def train(*argv: str | Path) -> tuple[int, str, str]:
        command = [sys.executable, "-m", "jaxrl_hw.train", *map(str, argv)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        return done.returncode, done.stdout, done.stderr

    return train


@pytest.fixture(scope="session")
def reproducible() -> Callable[[Path], list[dict[str, Any]]]:
    """reproducible(run's folder): metrics.jsonl without what the clock and the machine decide."""

    def read(folder: Path) -> list[dict[str, Any]]:
        lines = (folder / "metrics.jsonl").read_text().splitlines()
        return [{k: v for k, v in json.loads(x).items() if k not in BY_THE_CLOCK} for x in lines]

    return read
