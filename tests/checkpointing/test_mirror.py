"""The mirror is the run's second copy: atomic, never in the way, and enough to go on from."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl_hw.checkpointing import copying
from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.mirror import Mirror
from jaxrl_hw.checkpointing.retention import Shelf
from jaxrl_hw.checkpointing.run_dir import RunDir

STATE = {"w": np.arange(5, dtype="float32")}


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


class Desk:
    """A run's folder with its checkpoints, and a mirror of it."""

    def __init__(self, root: Path, keep: int = 2) -> None:
        self.told: list[str] = []
        self.run = RunDir(root / "runs" / "a")
        self.run.prepare()
        self.run.write_config({"robot": "none"})
        self.run.metrics_jsonl.write_text('{"iteration": 1}\n')
        self.copy = RunDir(root / "drive" / "a")
        self.saves = Checkpoints(self.run.checkpoints, keep, on_saved=self.ask)
        self.mirror = Mirror(self.run, self.copy, self.saves.shelf, self.told.append)

    def ask(self) -> None:
        self.mirror.request()

    def save(self, iteration: int, wait: bool = True) -> None:
        self.saves.save(iteration, STATE, {})
        if wait:
            self.saves.wait()
            assert self.mirror.wait(20)

    def close(self) -> None:
        self.saves.close()
        self.mirror.close(20)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.close()


def test_the_mirror_has_what_the_run_has_and_keeps_what_it_keeps(desk: Desk) -> None:
    for iteration in (1, 2, 3, 4):
        desk.save(iteration)
    assert Shelf(desk.copy.checkpoints).iterations() == [3, 4]
    assert files(desk.copy.path) == files(desk.run.path)
    assert desk.told == []
    with Checkpoints(desk.copy.checkpoints) as checkpoints:
        state, iteration = checkpoints.restore(STATE)
    assert iteration == 4
    np.testing.assert_array_equal(state["w"], STATE["w"])


def test_a_checkpoint_is_not_copied_twice_but_one_made_anew_is(desk: Desk) -> None:
    desk.save(1)
    copied = desk.copy.checkpoints / "1/meta/metadata"
    before = copied.stat().st_ino
    desk.save(2)
    assert copied.stat().st_ino == before
    desk.saves.save(1, {"w": STATE["w"] + 1}, {}, force=True)
    desk.saves.wait()
    assert desk.mirror.wait(20)
    assert files(desk.copy.path) == files(desk.run.path)
    assert desk.told == []


def test_a_later_checkpoint_in_the_mirror_stays_until_the_run_has_come_that_far(
    desk: Desk,
) -> None:
    desk.save(1)
    desk.save(5)
    shutil.rmtree(desk.run.checkpoints / "5")
    desk.save(2)
    assert Shelf(desk.copy.checkpoints).iterations() == [1, 2, 5]
    desk.save(6)
    assert Shelf(desk.copy.checkpoints).iterations() == [2, 6]


def test_a_damaged_checkpoint_does_not_replace_the_mirrors_whole_one(desk: Desk) -> None:
    desk.save(1)
    whole = files(desk.copy.checkpoints / "1")
    meta = desk.run.checkpoints / "1/meta/metadata"
    for damaged in (meta.read_bytes()[:-9], b"", b'{"iteration": 1, "leaves": {}}'):
        meta.write_bytes(damaged)
        desk.mirror.request()
        assert desk.mirror.wait(20)
        assert files(desk.copy.checkpoints / "1") == whole
    desk.save(2)
    desk.save(3)
    desk.save(4)
    assert files(desk.copy.checkpoints / "1") == whole
    assert Shelf(desk.copy.checkpoints).iterations() == [1, 3, 4]
    assert desk.told == []


def test_a_failing_mirror_is_a_warning_and_tried_again_at_the_next_save(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.mirror.close(20)
    desk.told.clear()
    place = tmp_path / "not mounted"
    desk.copy = RunDir(place / "drive" / "a")
    desk.mirror = Mirror(desk.run, desk.copy, desk.saves.shelf, desk.told.append)
    desk.save(1)
    assert len(desk.told) == 1
    assert "not mirrored: " in desk.told[0]
    assert "(is the drive mounted?)" in desk.told[0]
    assert not place.exists()
    place.mkdir()
    desk.save(2)
    assert len(desk.told) == 1
    assert Shelf(desk.copy.checkpoints).iterations() == [1, 2]
    desk.close()


def test_a_slow_mirror_holds_nothing_up_and_keeps_what_it_is_copying(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, copy = threading.Event(), threading.Event(), copying._copy_folder

    def slow(source: Path, target: Path) -> None:
        began.set()
        assert go_on.wait(30)
        copy(source, target)

    monkeypatch.setattr(copying, "_copy_folder", slow)
    desk.save(1, wait=False)
    assert began.wait(20)
    for iteration in (2, 3, 4):
        desk.save(iteration, wait=False)
        desk.saves.wait()
    assert desk.saves.iterations() == [1, 3, 4]  # 1 is being copied
    assert desk.saves.blocked_s < 1.0
    assert not desk.mirror.wait(0.05)
    go_on.set()
    assert desk.mirror.wait(20)
    desk.save(5)
    assert desk.saves.iterations() == [4, 5]
    assert files(desk.copy.path) == files(desk.run.path)
    assert desk.told == []


def test_the_end_does_not_wait_for_ever_for_a_mirror_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, hung = Desk(tmp_path), threading.Event()
    monkeypatch.setattr(copying, "copy_small_files", lambda *_: hung.wait(30))
    desk.save(1, wait=False)
    desk.saves.close()
    began = time.monotonic()
    desk.mirror.close(0.2)
    assert time.monotonic() - began < 5
    assert "is not up to date" in desk.told[-1]
    hung.set()


def test_half_a_copy_is_never_a_checkpoint_and_is_swept(desk: Desk, tmp_path: Path) -> None:
    broken = desk.copy.checkpoints / "7.0123456789abcdef.copy"
    broken.mkdir(parents=True)
    (broken / "meta").mkdir()
    long_ago = time.time() - 3600
    os.utime(broken, (long_ago, long_ago))
    assert desk.copy.newest_checkpoint() == 0
    desk.save(1)
    assert [path.name for path in desk.copy.checkpoints.iterdir()] == ["1"]


def test_a_disk_that_fills_up_leaves_no_half_checkpoint_in_the_mirror(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.save(1)
    copyfile, left = shutil.copyfile, [9]

    def failing(source: Path, target: Path) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", failing)
    desk.save(2)
    assert "No space left on device" in desk.told[0]
    assert [path.name for path in desk.copy.checkpoints.iterdir()] == ["1"]
    monkeypatch.setattr(shutil, "copyfile", copyfile)
    desk.save(3)
    assert files(desk.copy.path) == files(desk.run.path)


def test_another_runs_mirror_is_not_written_over(tmp_path: Path) -> None:
    first = Desk(tmp_path)
    first.save(1)
    first.close()
    there = files(first.copy.path)
    shutil.rmtree(first.run.path)
    second = Desk(tmp_path)
    second.save(2)
    assert "is the mirror of another run; choose another --mirror or --run-dir" in second.told[0]
    assert files(first.copy.path) == there
    second.close()
    told: list[str] = []
    shelf = Shelf(second.run.checkpoints)
    with Mirror(second.run, second.copy, shelf, told.append, replace=True) as renewed:
        renewed.request()
        assert renewed.wait(20)
    assert told == []
    assert files(tmp_path / "drive" / "a.1") == there
    assert Shelf(second.copy.checkpoints).iterations() == [2]


def test_a_folder_without_a_checkpoint_is_copied_back_whole_or_not_at_all(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for iteration in (1, 2):
        desk.save(iteration)
    back = RunDir(tmp_path / "elsewhere" / "a")
    back.prepare()
    assert copying.holder(back, desk.copy) is desk.copy
    assert copying.holder(desk.run, desk.copy) is desk.run
    copyfile: Callable[..., Any] = shutil.copyfile

    def interrupted(source: Path, target: Path) -> Any:
        if "/2" in str(target):
            raise KeyboardInterrupt
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copying.bring_back(desk.copy, back)
    assert back.newest_checkpoint() == 0  # it is done again, from the beginning
    monkeypatch.setattr(shutil, "copyfile", copyfile)
    copying.bring_back(desk.copy, back)
    assert files(back.path) == files(desk.run.path)
    assert json.loads(back.config_json.read_text())["id"] == desk.run.read_id()
