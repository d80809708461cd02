"""Saving beside the training: slow disks, full disks, and which checkpoints stay."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl_hw.checkpointing import orbax_io
from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.store import CheckpointStore, best_checkpoint

STATE = {"w": np.random.default_rng(0).standard_normal(50_000).astype("float32")}  # 200 kB


class SlowDisk:
    """Writes as usual, but not before `go_on` is set."""

    def __init__(self) -> None:
        self.go_on, self.began = threading.Event(), threading.Event()
        self.written: list[str] = []

    def write(self, folder: Path, *arguments: Any) -> None:
        self.began.set()
        assert self.go_on.wait(120)
        orbax_io.write(folder, *arguments)
        self.written.append(folder.stem)


@pytest.mark.slow
def test_a_slow_disk_does_not_hold_up_the_training(tmp_path: Path) -> None:
    disk = SlowDisk()
    warnings: list[str] = []
    with Checkpoints(tmp_path, keep=9, warn=warnings.append, write=disk.write) as checkpoints:
        checkpoints.save(1, STATE, {})
        assert disk.began.wait(60)
        time.sleep(1.1)  # iterations
        for iteration in range(2, 8):  # none of them waits for the disk, which stands still
            assert checkpoints.save(iteration, STATE, {})
        # the first is being written, the newest waits for it, and warnings name the others
        assert [word in warnings[0] for word in ("checkpoint 2", "3 ")] == [True, True]
        assert len(warnings) == 3  # of 5: a slow disk stays slow
        disk.go_on.set()
        checkpoints.wait()
        assert disk.written == ["1", "7"]
        assert checkpoints.iterations() == [1, 7]
        assert checkpoints.save(6, STATE, {})  # it was left out: not taken for saved
        assert checkpoints.has(6)
        assert checkpoints.saved_s > 1.0


def test_saves_in_quick_succession_are_all_written_by_a_usual_disk(tmp_path: Path) -> None:
    warnings: list[str] = []
    with Checkpoints(tmp_path, keep=9, warn=warnings.append) as checkpoints:
        checkpoints.save(0, STATE, {})
        checkpoints.wait()  # until Orbax is loaded
        for iteration in range(1, 7):
            checkpoints.save(iteration, STATE, {})
    assert warnings == []
    assert checkpoints.iterations() == list(range(7))


def test_a_full_disk_is_a_loud_warning_and_later_saves_are_tried_again(small_disk: Path) -> None:
    warnings: list[str] = []
    ballast = small_disk / "ballast"
    with Checkpoints(small_disk / "c", keep=1, warn=warnings.append) as checkpoints:
        checkpoints.save(1, STATE, {})
        checkpoints.wait()
        with pytest.raises(OSError, match="No space left"):
            ballast.write_bytes(bytes(2_000_000))
        for iteration in (2, 3):
            checkpoints.save(iteration, STATE, {})
            checkpoints.wait()
            for part in (str(iteration), str(small_disk), "0.00 GB"):
                assert part in warnings[-1]
            assert "\n" not in warnings[-1]
            assert not checkpoints.has(iteration)
        assert [path.name for path in (small_disk / "c").iterdir()] == ["1"]
        state, iteration = checkpoints.restore(STATE)
        assert iteration == 1
        np.testing.assert_array_equal(state["w"], STATE["w"])
        ballast.unlink()
        checkpoints.save(3, STATE, {})
        assert checkpoints.has(3)
    assert len(warnings) == 2


def test_what_cannot_be_deleted_is_a_warning_and_the_new_one_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if target.name.endswith(".old"):
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    warnings: list[str] = []
    monkeypatch.setattr(Path, "rename", refuse)
    with Checkpoints(tmp_path, keep=1, warn=warnings.append) as checkpoints:
        for iteration in (1, 2):
            checkpoints.save(iteration, STATE, {})
            assert checkpoints.has(iteration)
    assert len(warnings) == 1
    assert checkpoints.iterations() == [1, 2]


def test_those_of_every_so_many_iterations_stay_for_good(tmp_path: Path) -> None:
    with Checkpoints(tmp_path, keep=2, keep_every=10) as checkpoints:
        for iteration in range(5, 45, 5):
            value = {"episode_return": 9.0 if iteration == 15 else 1.0}
            checkpoints.save(iteration, {"w": np.float32(iteration)}, value)
            checkpoints.wait()
        assert checkpoints.iterations() == [10, 15, 20, 30, 35, 40]


def test_what_was_restored_stays_as_long_as_it_is_in_use(tmp_path: Path) -> None:
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        for iteration in (1, 2, 3):
            checkpoints.save(iteration, STATE, {})
            checkpoints.wait()
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        assert checkpoints.restore(STATE, 2) is not None
        for iteration in (4, 5):
            checkpoints.save(iteration, STATE, {})
            checkpoints.wait()
        assert checkpoints.iterations() == [2, 5]
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.save(6, STATE, {})
        checkpoints.wait()
        assert checkpoints.iterations() == [6]


def test_a_checkpoint_whose_description_is_damaged_does_not_count_among_the_kept(
    tmp_path: Path,
) -> None:
    with Checkpoints(tmp_path, keep=5) as checkpoints:
        for iteration in (1, 2, 3):
            checkpoints.save(iteration, STATE, {"episode_return": float(iteration)})
            checkpoints.wait()
    text = (tmp_path / "3/meta/metadata").read_text()
    (tmp_path / "3/meta/metadata").write_text(text.replace("3.0", "8.0"))
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        assert best_checkpoint(checkpoints.store.sound()).iteration == 2
        checkpoints.save(4, STATE, {"episode_return": 0.0})
        checkpoints.wait()
        assert checkpoints.iterations() == [2, 3, 4]


def test_a_writer_killed_between_two_renames_has_lost_nothing(tmp_path: Path) -> None:
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(7, STATE, {})
    # so it is where an older 7 has been moved away and the new one has not got its name yet
    (tmp_path / "7").rename(tmp_path / "7.new")
    (tmp_path / "7.old").mkdir()
    store = CheckpointStore(tmp_path)
    assert store.iterations() == []
    store.recover()
    assert store.iterations() == [7]


@pytest.mark.slow
def test_several_runs_of_one_process_save_at_once(tmp_path: Path) -> None:
    def save(run: int) -> None:
        for iteration in range(4):
            start.wait(60)
            folder = tmp_path / f"{run}-{iteration}"
            orbax_io.write(folder, STATE, {"iteration": iteration})

    start = threading.Barrier(4)
    threads = [threading.Thread(target=save, args=(run,), daemon=True) for run in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    for folder in (tmp_path / f"{run}-{iteration}" for run in range(4) for iteration in range(4)):
        np.testing.assert_array_equal(orbax_io.read_arrays(folder)["w"], STATE["w"])
