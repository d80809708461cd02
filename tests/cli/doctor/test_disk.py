"""The disk is measured and left as it was; what draws curves is optional."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.results import CheckResult

Rows = Callable[..., list[CheckResult]]


def test_a_missing_folder_is_made_and_removed(rows: Rows, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "new" / "runs"
    speed, room = rows("run folder", run_dir=folder)
    assert {speed.status, room.status} <= {"pass", "warn"}  # a busy disk may be slow
    assert speed.figures["bytes"] == 16 << 20
    assert speed.figures["seconds"] > 0
    assert 0 < room.figures["free"] < room.figures["total"]
    assert not (tmp_path / "some").exists()


def test_a_folder_with_runs_keeps_them_and_gets_nothing(rows: Rows, tmp_path: Path) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    rows("run folder", run_dir=tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").rglob("*")] == ["a"]


def test_a_folder_that_cannot_be_written_fails(rows: Rows, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (Path("/proc/none"), tmp_path / "file" / "runs"):
        (found,) = rows("run folder", run_dir=folder)
        assert found.status == "fail"
        assert str(folder) in found.value
        assert "--run-dir" in found.advice
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_fails_and_stays_empty(rows: Rows, small_disk: Path) -> None:
    (found,) = rows("run folder", run_dir=small_disk / "runs")
    assert found.status == "fail"
    assert "No space left on device" in found.value
    assert list(small_disk.iterdir()) == []


def test_a_logger_never_fails(rows: Rows, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site" / "wandb").mkdir(parents=True)
    (tmp_path / "site" / "wandb" / "__init__.py").write_text("raise ValueError('half installed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"), prepend=":")
    files, board, wandb = rows("curves")
    assert (files.item, files.status) == ("TensorBoard files", "pass")
    assert board.status == "pass"  # installed or not
    assert (wandb.status, wandb.advice) == ("warn", "pip install --force-reinstall wandb")
    assert "half installed" in wandb.value
