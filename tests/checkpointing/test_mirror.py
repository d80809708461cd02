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

from jaxrl_hw.checkpointing.checkpoint import Checkpoints
from jaxrl_hw.checkpointing.mirror import Mirror, copy_back, locate_run
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.checkpointing.store import CheckpointStore

STATE = {"w": np.arange(5, dtype="float32")}


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


class Mirrored:
    """A run's folder with its checkpoints, and a mirror of it."""

    def __init__(self, root: Path, keep: int = 2) -> None:
        self.warnings: list[str] = []
        self.run = RunDir(root / "runs" / "a")
        self.run.prepare()
        self.run.write_config({"robot": "none"})
        self.run.metrics_jsonl.write_text('{"iteration": 1}\n')
        self.copy = RunDir(root / "drive" / "a")
        self.saves = Checkpoints(self.run.checkpoints, keep, on_saved=self.ask)
        self.mirror = Mirror(self.run, self.copy, self.saves.store, self.warnings.append)

    def ask(self) -> None:
        self.mirror.request()

    def save(self, iteration: int, wait: bool = True) -> None:
        self.saves.save(iteration, STATE, {})
        if wait:
            self.saves.wait()
            assert self.mirror.wait(60)

    def close(self) -> None:
        self.saves.close()
        self.mirror.close(60)


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Mirrored]:
    made = Mirrored(tmp_path)
    yield made
    made.close()


def test_the_mirror_has_what_the_run_has_and_keeps_what_it_keeps(pair: Mirrored) -> None:
    for iteration in (1, 2, 3, 4):
        pair.save(iteration)
    assert CheckpointStore(pair.copy.checkpoints).iterations() == [3, 4]
    assert files(pair.copy.path) == files(pair.run.path)
    assert pair.warnings == []
    with Checkpoints(pair.copy.checkpoints) as checkpoints:
        state, iteration = checkpoints.restore(STATE)
    assert iteration == 4
    np.testing.assert_array_equal(state["w"], STATE["w"])


def test_a_checkpoint_is_not_copied_twice_but_one_made_anew_is(pair: Mirrored) -> None:
    pair.save(1)
    copied = pair.copy.checkpoints / "1/meta/metadata"
    before = copied.stat().st_ino
    pair.save(2)
    assert copied.stat().st_ino == before
    pair.saves.save(1, {"w": STATE["w"] + 1}, {}, force=True)
    pair.saves.wait()
    assert pair.mirror.wait(60)
    assert files(pair.copy.path) == files(pair.run.path)
    assert pair.warnings == []


def test_a_later_checkpoint_in_the_mirror_stays_until_the_run_has_come_that_far(
    pair: Mirrored,
) -> None:
    pair.save(1)
    pair.save(5)
    shutil.rmtree(pair.run.checkpoints / "5")
    pair.save(2)
    assert CheckpointStore(pair.copy.checkpoints).iterations() == [1, 2, 5]
    pair.save(6)
    assert CheckpointStore(pair.copy.checkpoints).iterations() == [2, 6]


def test_a_damaged_checkpoint_does_not_replace_the_mirrors_whole_one(pair: Mirrored) -> None:
    pair.save(1)
    whole = files(pair.copy.checkpoints / "1")
    meta = pair.run.checkpoints / "1/meta/metadata"
    for damaged in (meta.read_bytes()[:-9], b"", b'{"iteration": 1, "leaves": {}}'):
        meta.write_bytes(damaged)
        pair.mirror.request()
        assert pair.mirror.wait(60)
        assert files(pair.copy.checkpoints / "1") == whole
    pair.save(2)
    pair.save(3)
    pair.save(4)
    assert files(pair.copy.checkpoints / "1") == whole
    assert CheckpointStore(pair.copy.checkpoints).iterations() == [1, 3, 4]
    assert pair.warnings == []


def test_a_failing_mirror_is_a_warning_and_tried_again_at_the_next_save(tmp_path: Path) -> None:
    pair = Mirrored(tmp_path)
    pair.mirror.close(60)
    pair.warnings.clear()
    place = tmp_path / "not mounted"
    pair.copy = RunDir(place / "drive" / "a")
    pair.mirror = Mirror(pair.run, pair.copy, pair.saves.store, pair.warnings.append)
    pair.save(1)
    assert len(pair.warnings) == 1
    assert str(place) in pair.warnings[0]
    assert not place.exists()
    place.mkdir()
    pair.save(2)
    assert len(pair.warnings) == 1
    assert CheckpointStore(pair.copy.checkpoints).iterations() == [1, 2]
    pair.close()


def test_a_slow_mirror_holds_nothing_up_and_keeps_what_it_is_copying(
    pair: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, go_on, copyfile = threading.Event(), threading.Event(), shutil.copyfile

    def slow(source: Path, target: Path) -> Any:
        if "checkpoints" in str(target):
            began.set()
            assert go_on.wait(60)
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", slow)
    pair.save(1, wait=False)
    assert began.wait(60)
    for iteration in (2, 3, 4):
        pair.save(iteration, wait=False)
        pair.saves.wait()
    assert pair.saves.iterations() == [1, 3, 4]  # 1 is being copied
    assert not pair.mirror.wait(0.05)
    go_on.set()
    assert pair.mirror.wait(60)
    pair.save(5)
    assert pair.saves.iterations() == [4, 5]
    assert files(pair.copy.path) == files(pair.run.path)
    assert pair.warnings == []


def test_the_end_does_not_wait_for_ever_for_a_mirror_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, hung, copied = Mirrored(tmp_path), threading.Event(), []
    monkeypatch.setattr(shutil, "copyfile", lambda *_: copied.append(hung.wait(60)))
    pair.save(1, wait=False)
    pair.saves.close()
    pair.mirror.close(0.2)
    assert copied == []
    assert str(pair.copy.path) in pair.warnings[-1]
    hung.set()


def test_half_a_copy_is_never_a_checkpoint_and_is_swept(pair: Mirrored, tmp_path: Path) -> None:
    broken = pair.copy.checkpoints / "7.0123456789abcdef.copy"
    broken.mkdir(parents=True)
    (broken / "meta").mkdir()
    long_ago = time.time() - 3600
    os.utime(broken, (long_ago, long_ago))
    assert pair.copy.newest_checkpoint() == 0
    pair.save(1)
    assert [path.name for path in pair.copy.checkpoints.iterdir()] == ["1"]


def test_a_disk_that_fills_up_leaves_no_half_checkpoint_in_the_mirror(
    pair: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.save(1)
    copyfile, left = shutil.copyfile, [5]

    def failing(source: Path, target: Path) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", failing)
    pair.save(2)
    assert len(pair.warnings) == 1
    assert [path.name for path in pair.copy.checkpoints.iterdir()] == ["1"]
    monkeypatch.setattr(shutil, "copyfile", copyfile)
    pair.save(3)
    assert files(pair.copy.path) == files(pair.run.path)


def test_another_runs_mirror_is_not_written_over(tmp_path: Path) -> None:
    first = Mirrored(tmp_path)
    first.save(1)
    first.close()
    there = files(first.copy.path)
    shutil.rmtree(first.run.path)
    second = Mirrored(tmp_path)
    second.save(2)
    assert str(second.copy.path) in second.warnings[0]
    assert files(first.copy.path) == there
    second.close()
    warnings: list[str] = []
    store = CheckpointStore(second.run.checkpoints)
    with Mirror(second.run, second.copy, store, warnings.append, replace=True) as renewed:
        renewed.request()
        assert renewed.wait(60)
    assert warnings == []
    assert files(tmp_path / "drive" / "a.1") == there
    assert CheckpointStore(second.copy.checkpoints).iterations() == [2]


def test_a_folder_without_a_checkpoint_is_copied_back_whole_or_not_at_all(
    pair: Mirrored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for iteration in (1, 2):
        pair.save(iteration)
    back = RunDir(tmp_path / "elsewhere" / "a")
    back.prepare()
    assert locate_run(back, pair.copy) is pair.copy
    assert locate_run(pair.run, pair.copy) is pair.run
    copyfile: Callable[..., Any] = shutil.copyfile

    def interrupted(source: Path, target: Path) -> Any:
        if "/2" in str(target):
            raise KeyboardInterrupt
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", interrupted)
    with pytest.raises(KeyboardInterrupt):
        copy_back(pair.copy, back)
    assert back.newest_checkpoint() == 0  # it is done again, from the beginning
    monkeypatch.setattr(shutil, "copyfile", copyfile)
    copy_back(pair.copy, back)
    assert files(back.path) == files(pair.run.path)
    assert json.loads(back.config_json.read_text())["id"] == pair.run.read_id()
