"""A run survives a lost folder, a full disk, a second process and a change of machine."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw import RunError, fit, load_run
from jaxrl_hw.cli.flags import parse
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.train import main

SMALL = [
    *("--robot", "cartpole", "--physics", "native", "--num-envs", "8", "--no-tensorboard"),
    *("--ppo.unroll", "4", "--ppo.epochs", "1", "--ppo.minibatch-size", "32"),
    *("--net.policy", "8", "--net.value", "8", "--cartpole.episode-s", "1"),
    *("--save-every", "2", "--keep", "2"),
]
pytestmark = pytest.mark.slow  # every test trains
BY_THE_CLOCK = {"wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes"}


def rows(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without what differs between two equal runs."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k not in BY_THE_CLOCK} for x in lines]


def sessions(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "sessions.jsonl").read_text().splitlines()]


def checkpoints(folder: Path) -> list[int]:
    names = (path.name for path in (folder / "checkpoints").glob("*"))  # it may not be there yet
    return sorted(int(name) for name in names if name.isdecimal())


def train(folder: Path, iterations: int, *more: str) -> int:
    return main([*SMALL, "--run-dir", str(folder), "--iterations", str(iterations), *more])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 9 iterations in one go."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert train(folder, 9) == 0
    return folder


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def test_a_session_records_what_saving_cost(whole: Path) -> None:
    (session,) = sessions(whole)
    assert session["save_s"] > 0
    assert session["save_blocked_s"] >= 0
    assert checkpoints(whole)[-2:] == [8, 9]
    assert json.loads((whole / "plan.json").read_text())["disk"]["kept"] == 3


def test_a_run_whose_folder_is_lost_continues_from_its_mirror(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, drive = tmp_path / "runs" / "run", tmp_path / "drive"
    mirror = ("--mirror", str(drive))
    assert train(folder, 4, *mirror) == 0
    assert checkpoints(drive / "run") == checkpoints(folder) == [2, 4]
    for name in ("config.json", "plan.json", "sessions.jsonl", "metrics.jsonl"):
        assert (drive / "run" / name).read_bytes() == (folder / name).read_bytes()

    shutil.rmtree(folder)
    capsys.readouterr()
    assert train(folder, 6, *mirror) == 0
    assert str(drive / "run") in capsys.readouterr().out
    assert checkpoints(folder) == [4, 6]
    assert [s["first_iteration"] for s in sessions(folder)] == [1, 5]

    # the run's own checkpoints are damaged, and the mirror's are whole
    for number in checkpoints(folder):
        (folder / f"checkpoints/{number}/state/manifest.ocdbt").unlink()
    assert train(folder, 9, *mirror) == 0
    shown = capsys.readouterr().out
    assert all(str(folder / f"checkpoints/{number}") in shown for number in (4, 6))
    assert str(drive / "run") in shown
    assert rows(folder) == rows(whole)
    assert checkpoints(drive / "run") == checkpoints(folder)
    assert checkpoints(folder)[-2:] == [8, 9]


def test_another_run_of_the_same_name_does_not_take_the_mirrors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, drive = tmp_path / "runs" / "run", tmp_path / "drive"
    mirror = ("--mirror", str(drive))
    assert train(folder, 2, *mirror) == 0
    shutil.rmtree(folder)
    assert train(folder, 4, *mirror, "--seed", "3") == 2
    refusal = capsys.readouterr().err
    assert str(drive / "run") in refusal
    assert "seed" in refusal
    assert not folder.exists()
    # with --resume never the old copy is kept under another name
    assert train(folder, 3, *mirror, "--seed", "3", "--resume", "never") == 0
    assert checkpoints(drive / "run.1") == [2]
    assert checkpoints(drive / "run") == [2, 3]


def test_a_mirror_that_fails_is_a_warning_and_the_run_reaches_its_goal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, drive = tmp_path / "run", tmp_path / "not mounted" / "drive"
    assert train(folder, 3, "--mirror", str(drive)) == 0
    assert str(drive.parent) in capsys.readouterr().out
    assert checkpoints(folder) == [2, 3]
    assert not drive.parent.exists()
    # at the goal the same command updates the mirror
    drive.parent.mkdir()
    assert train(folder, 3, "--mirror", str(drive)) == 0
    assert checkpoints(drive / "run") == [2, 3]


def test_checkpoints_of_every_so_many_iterations_are_made_and_stay(tmp_path: Path) -> None:
    assert train(tmp_path, 8, "--keep", "1", "--keep-every", "3") == 0
    assert checkpoints(tmp_path) == [3, 6, 8]


def test_a_checkpoint_is_read_with_the_environments_it_was_saved_with(
    copied: Path, whole: Path
) -> None:
    # killed with other settings before its first save: config.json is ahead of the checkpoint
    path = copied / "config.json"
    record = json.loads(path.read_text())
    record["config"]["num_envs"] = 16
    path.write_text(json.dumps(record))
    assert load_run(copied).iteration == 9
    assert train(copied, 10) == 0
    assert rows(copied)[:9] == rows(whole)


class FullDisk:
    """A disk that fills after one iteration, and has room again after another.

    The run waits for the writing thread: a save that has to wait for long is left out.
    """

    def __init__(self, disk: Path, full: int = 0, free: int = 0) -> None:
        self.disk, self.full, self.free = disk, full, free
        self.shown = io.StringIO()

    def train(self) -> None:
        config = parse([*SMALL, "--run-dir", str(self.disk / "run"), "--iterations", "9"])
        fit(config, self.after, Console(self.shown))

    def failed(self, iteration: int) -> bool:
        """Whether a warning names the checkpoint of that iteration."""
        return any(
            line.startswith("warning:") and f" {iteration} " in line
            for line in self.shown.getvalue().splitlines()
        )

    def after(self, row: dict[str, Any]) -> None:
        ballast, iteration = self.disk / "ballast", row["iteration"]
        if iteration == self.full:
            self.wait(lambda: checkpoints(self.disk / "run") == [2])
            with contextlib.suppress(OSError), open(ballast, "wb") as file:
                while True:
                    file.write(bytes(4096))
                    file.flush()
        if self.free and iteration == 5:
            self.wait(lambda: self.failed(4))
        if self.free and iteration == 9:
            self.wait(lambda: 8 in checkpoints(self.disk / "run"))
        if iteration == self.free:
            self.wait(lambda: self.failed(4) and self.failed(6))
            ballast.unlink()

    def wait(self, until: Callable[[], bool]) -> None:
        end = time.monotonic() + 60
        while not until() and time.monotonic() < end:
            time.sleep(0.05)
        assert until()


def test_a_run_continues_while_its_disk_is_full_and_saves_again_when_it_is_not(
    whole: Path, small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FullDisk(small_disk, full=3, free=7)
    disk.train()
    assert [n for n in range(1, 10) if disk.failed(n)] == [4, 6]
    assert [record.name for record in caplog.records] == []  # and no other traces
    assert checkpoints(small_disk / "run")[-2:] == [8, 9]
    assert rows(small_disk / "run") == rows(whole)  # its rows have waited in memory


def test_a_run_that_could_not_save_its_end_fails(whole: Path, small_disk: Path) -> None:
    folder = small_disk / "run"
    with pytest.raises(RunError, match="iteration 9") as failure:
        FullDisk(small_disk, full=3).train()
    assert str(folder / "checkpoints") in str(failure.value)
    assert "iteration 2" in str(failure.value)
    assert checkpoints(folder) == [2]
    (small_disk / "ballast").unlink()
    FullDisk(small_disk).train()
    assert rows(folder) == rows(whole)


def test_a_run_that_another_machine_has_taken_over_stops_and_writes_nothing_more(
    copied: Path,
) -> None:
    note = copied / "session.open"
    theirs = json.dumps({"pid": 4711, "host": "elsewhere", "process_started": 1.0})

    def take_over(row: dict[str, Any]) -> None:
        if row["iteration"] == 11:
            note.write_text(theirs)

    before = sessions(copied)
    config = parse([*SMALL, "--run-dir", str(copied), "--iterations", "14"])
    with pytest.raises(RunError, match="4711"):
        fit(config, take_over, Console(io.StringIO()))
    assert note.read_text() == theirs
    assert checkpoints(copied)[-1] <= 10
    assert sessions(copied) == before


def test_a_second_process_is_refused_and_the_lock_goes_with_the_first(copied: Path) -> None:
    config = parse([*SMALL, "--run-dir", str(copied), "--iterations", "11"])
    refused: list[int] = []

    def second(row: dict[str, Any]) -> None:
        refused.append(train(copied, 20))
        refused.append(train(copied, 20, "--resume", "never"))

    fit(config, second, Console(io.StringIO()))
    assert refused == [2] * 4
    assert not (copied / "session.open").exists()
    assert sessions(copied)[-1]["ended"] == "goal"
    assert checkpoints(copied)[-1] == 11
