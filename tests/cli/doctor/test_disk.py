"""The disk is measured, and is left as it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.results import Finding

Made = Callable[..., list[Finding]]


def test_a_new_folder_is_tried_and_gone_again(made: Made, tmp_path: Path) -> None:
    folder = tmp_path / "some" / "new" / "runs"
    speed, room = made("run folder", run_dir=folder)
    assert (speed.status, room.status) == ("pass", "pass")
    assert speed.figures["bytes"] == 16 << 20
    assert speed.figures["seconds"] > 0
    assert 0 < room.figures["free"] < room.figures["total"]
    assert not (tmp_path / "some").exists()


def test_a_folder_with_runs_keeps_them_and_gets_nothing(made: Made, tmp_path: Path) -> None:
    (tmp_path / "runs" / "a").mkdir(parents=True)
    made("run folder", run_dir=tmp_path / "runs")
    assert [path.name for path in (tmp_path / "runs").rglob("*")] == ["a"]


def test_a_folder_that_cannot_be_written_fails(made: Made, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder, why in (
        (Path("/proc/none"), "/proc/none cannot be written"),
        (tmp_path / "file" / "runs", "Not a directory"),
    ):
        (found,) = made("run folder", run_dir=folder)
        assert (found.status, found.advice) == ("fail", "name another: --run-dir DIR")
        assert why in found.value
    assert (tmp_path / "file").read_text() == "mine"


def test_a_full_disk_fails_and_stays_empty(made: Made, small_disk: Path) -> None:
    (found,) = made("run folder", run_dir=small_disk / "runs")
    assert found.status == "fail"
    assert "No space left on device" in found.value
    assert list(small_disk.iterdir()) == []


def test_what_draws_curves_is_never_a_failure(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "site" / "wandb").mkdir(parents=True)
    (tmp_path / "site" / "wandb" / "__init__.py").write_text("raise ValueError('half installed')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    files, board, wandb = made("curves")
    assert (files.item, files.status) == ("TensorBoard files", "pass")
    assert board.status == "pass"  # installed or not
    assert (wandb.status, wandb.advice) == ("warn", "pip install --force-reinstall wandb")
    assert "half installed" in wandb.value
