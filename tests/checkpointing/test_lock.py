"""One run, one writer: on this machine, on another one, and in the same second."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jaxrl_hw.checkpointing.lock import STALE_S, Lock, age_s, read_lock, remove
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.train import main

ELSEWHERE = {"pid": 4711, "host": "elsewhere", "process_started": 1.0}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "session.open"


@pytest.fixture
def lock(path: Path) -> Iterator[Lock]:
    """A lock that beats 20 times a second."""
    held = Lock(path, heartbeat_s=0.05)
    yield held
    held.release()


def write_lock(path: Path, seen_s: float = 0.0, **changes: Any) -> None:
    """A lock file that was last touched so many seconds ago."""
    path.write_text(json.dumps({**ELSEWHERE, **changes}))
    then = time.time() - seen_s
    os.utime(path, (then, then))


def dead_process() -> int:
    with subprocess.Popen(["true"]) as process:
        pass
    return process.pid


def test_a_fresh_lock_file_of_another_machine_is_respected(path: Path, lock: Lock) -> None:
    write_lock(path, seen_s=90)
    with pytest.raises(UserError) as caught:
        lock.acquire()
    text = str(caught.value)
    for part in ("4711", "elsewhere", str(path.parent), f"{STALE_S / 60:.0f} min", str(path)):
        assert part in text
    assert "\n" not in text
    assert json.loads(path.read_text()) == ELSEWHERE
    path.unlink()
    assert lock.acquire() is None


def test_a_stale_lock_file_of_another_machine_is_taken_over(path: Path, lock: Lock) -> None:
    write_lock(path, seen_s=STALE_S - 30)
    with pytest.raises(UserError):
        lock.acquire()
    write_lock(path, seen_s=STALE_S + 5, num_envs=8)
    assert lock.acquire() == {"num_envs": 8}
    assert json.loads(path.read_text())["pid"] == os.getpid()


def test_a_dead_or_reused_process_of_this_machine_is_taken_over(path: Path, lock: Lock) -> None:
    host = platform.node()
    write_lock(path, host=host, pid=dead_process(), first_iteration=3)
    assert lock.acquire() == {"first_iteration": 3}
    lock.release()
    # another process has its number by now: this one, and the first of the machine
    for pid in (os.getpid(), 1):
        write_lock(path, host=host, pid=pid)
        assert lock.acquire() == {}
        lock.release()
    assert not path.exists()


def test_the_same_process_cannot_train_twice_in_one_folder(tmp_path: Path) -> None:
    first, second = RunDir(tmp_path), RunDir(tmp_path)
    first.claim()
    with pytest.raises(UserError, match=str(os.getpid())):
        second.claim()
    second.release()  # it holds nothing
    with pytest.raises(UserError):
        second.claim()
    first.release()
    second.claim()
    second.release()


def test_the_lock_file_is_touched_while_it_is_held(path: Path, lock: Lock) -> None:
    lock.acquire()
    os.utime(path, (0, 0))
    end = time.monotonic() + 60
    while age_s(path) > 1000 and time.monotonic() < end:
        time.sleep(0.02)
    assert age_s(path) < 1000
    lock.release()
    assert not path.exists()
    time.sleep(0.15)
    assert not path.exists()


def test_a_deleted_lock_file_is_restored(path: Path, lock: Lock) -> None:
    lock.acquire()
    lock.write({"num_envs": 4})
    path.unlink()
    lock.check()
    assert json.loads(path.read_text())["num_envs"] == 4


def test_a_process_that_has_lost_the_folder_leaves_it_alone(path: Path, lock: Lock) -> None:
    lock.acquire()
    write_lock(path)
    with pytest.raises(RunError, match="4711 on elsewhere"):
        lock.write({"num_envs": 4})
    assert lock.lost
    assert not lock.held
    lock.release()
    assert json.loads(path.read_text()) == ELSEWHERE


def test_a_lock_file_that_changes_meanwhile_is_not_removed(path: Path) -> None:
    write_lock(path, pid=1)
    found = read_lock(path)
    assert found is not None
    write_lock(path, pid=2)  # another process was faster
    assert not remove(path, found)
    assert read_lock(path) == {**ELSEWHERE, "pid": 2}
    assert [p.name for p in path.parent.iterdir()] == ["session.open"]


def test_half_a_lock_file_counts_as_that_of_a_killed_process(path: Path, lock: Lock) -> None:
    path.write_text('{"pid": 1')
    os.utime(path, (time.time() - 60,) * 2)
    assert lock.acquire() == {}


RACE = """
import sys, time
from pathlib import Path
from jaxrl_hw.errors import UserError
from jaxrl_hw.checkpointing.lock import Lock
import filelock
print("ready", flush=True)
start = float(sys.stdin.readline())
for i, folder in enumerate(sorted(Path(sys.argv[1]).iterdir())):
    time.sleep(max(0.0, start + 0.04 * i - time.time()))
    try:
        Lock(folder / "session.open").acquire()
        print(folder.name, flush=True)
    except UserError:
        pass
sys.stdout.write("end\\n"); sys.stdout.flush()
sys.stdin.readline()
"""


@pytest.mark.slow
def test_of_processes_started_in_the_same_instant_one_gets_the_folder(tmp_path: Path) -> None:
    # half the folders are empty, half hold the lock file of a dead process
    names = [f"{i:02d}" for i in range(40)]
    dead = dead_process()
    for name in names:
        (tmp_path / name).mkdir()
        if int(name) % 2:
            write_lock(tmp_path / name / "session.open", host=platform.node(), pid=dead)
    command = [sys.executable, "-c", RACE, str(tmp_path)]
    pipe = subprocess.PIPE
    crowd = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(4)]
    for process in crowd:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    start = time.time() + 0.2
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write(f"{start}\n")
        process.stdin.flush()
    got: list[str] = []
    for process in crowd:
        assert process.stdout is not None
        got += iter(process.stdout.readline, "end\n")
    for process in crowd:
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    assert sorted(name.strip() for name in got) == names


def test_the_command_is_refused_at_once_and_touches_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_lock(tmp_path / "session.open", seen_s=30)
    assert main(["--robot", "cartpole", "--num-envs", "8", "--run-dir", str(tmp_path)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert "4711" in err
    assert err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["session.open"]
