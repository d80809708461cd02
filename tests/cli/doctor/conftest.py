"""Checks run by name, and the doctor as a process."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.checks import CHECKS, run_checks
from jaxrl_hw.cli.doctor.results import CheckResult, Context


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable that JAX or MuJoCo reads, and JAX on the CPU."""
    for name in list(os.environ):
        if name.startswith(("JAX_", "XLA_")) or name in ("MUJOCO_GL", "CUDA_VISIBLE_DEVICES"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")


@pytest.fixture
def rows(plain: None, tmp_path: Path) -> Callable[..., list[CheckResult]]:
    """rows(*names): the rows of the checks of these names, in their order."""

    def run(*names: str, run_dir: Path = tmp_path / "runs") -> list[CheckResult]:
        chosen = [check for check in CHECKS if check.name in names]
        scratch = tmp_path / "scratch"
        scratch.mkdir(exist_ok=True)
        return run_checks(chosen, Context(run_dir, scratch), contextlib.nullcontext)

    return run


@pytest.fixture
def fake_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """fake_smi(script): an nvidia-smi first in PATH."""

    def make(script: str) -> None:
        program = tmp_path / "bin" / "nvidia-smi"
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    return make


@pytest.fixture
def doctor(plain: None, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """doctor(*flags, **environment): `python -m jaxrl_hw.doctor`; temporary files in `tmp`."""

    def visit(*flags: str | Path, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "jaxrl_hw.doctor", *map(str, flags)]
        temporary = tmp_path / "tmp"
        temporary.mkdir(exist_ok=True)
        env = {**os.environ, "TMPDIR": str(temporary), **environ}
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=900, check=False
        )

    return visit
