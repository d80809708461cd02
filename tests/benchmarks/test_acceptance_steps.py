"""What the steps of a GPU's acceptance make of runs that are fast, slow, broken or endless.

A script stands in for the train command: it writes a run's files at once.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

TRAIN = """
import json, os, subprocess, sys, time
from pathlib import Path

given = json.loads(sys.argv[1])
flags = dict(zip(sys.argv, sys.argv[1:]))
envs, engine = int(flags.get("--num-envs", 64)), flags.get("--physics", "")
told = f"{engine} {envs} {os.environ.get('XLA_FLAGS', '')}"
if any(part in told for part in given.get("fails", ())):
    sys.exit("error: no luck")
run = Path(flags["--run-dir"])
run.mkdir(parents=True)
bytes_ = {"predicted_bytes": {"total": given.get("predicts", 1)}, "measured_bytes": {"peak": 1}}
(run / "config.json").write_text(json.dumps({"config": {"num_envs": envs}}))
(run / "sessions.jsonl").write_text(json.dumps({"num_envs": given.get("ends_with", envs)}))
(run / "whole").write_text(json.dumps({"num_envs": envs, **bytes_}))
(run / "whole").rename(run / "plan.json")
if given.get("is_endless"):
    subprocess.run(["sleep", "600"])
# the speed that was asked for, with 4 steps of the physics in 20 ms
speed = given.get("speeds", {}).get(engine, 100) * float(flags.get("--timestep", 0.005)) / 0.005
row = {"env_steps_per_s": speed, "iteration": 1}
(run / "metrics.jsonl").write_text(f"{json.dumps(row)}\\n" * int(flags["--iterations"]))
if "uses" in given:
    Path(given["uses"]).write_text("200")
    while not Path(given["uses"] + ".seen").exists():
        time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def steps(script: Any) -> Iterator[Any]:
    """gpu_acceptance.py, and what it imports."""
    with script("gpu_acceptance") as module:
        yield module


@pytest.fixture
def sizes(steps: Any) -> Callable[..., Any]:
    """sizes(given, **changes): as on a GPU, two sizes; `given` tells the stand-in what to do."""

    def make(given: dict[str, Any], **changes: Any) -> Any:
        train = (sys.executable, "-c", TRAIN, json.dumps(given))
        base = steps.runs.TINY._replace(robot="g1", platform="gpu", engines=("warp", "mjx"))
        return base._replace(train=train, **changes)

    return make


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver that tells of 1,000 MiB, of which so many are free as this file says."""
    free = tmp_path / "free"
    free.write_text("1000")
    program = tmp_path / "nvidia-smi"
    program.write_text(
        f"#!/bin/sh\nfree=$(cat {free})\necho 0, GPU-a, NVIDIA H200, 1000, $free\n"
        f"[ $free = 200 ] && touch {free}.seen\nexit 0\n"
    )
    program.chmod(0o755)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return free


H200 = "NVIDIA H200"


@pytest.mark.parametrize(
    ("device", "robot", "mjx", "warp", "slow"),
    [
        (H200, "g1", 300_000, 1_000_000, ()),
        (H200, "g1", 299_999, 1_000_000, ("299,999",)),
        (H200, "g1", 1_000, 999_999, ("1,000", "999,999")),
        (H200, "go1", 1_000, 1_000, ()),
        ("Tesla T4", "g1", 1_000, 1_000, ()),
    ],
)
def test_the_speed_is_judged_on_a_card_for_which_one_is_asked(
    steps: Any, sizes: Any, device: str, robot: str, mjx: int, warp: int, slow: tuple[str, ...]
) -> None:
    runs = steps.runs
    given = sizes({"speeds": {"mjx": mjx, "warp": warp}}, num_envs=(16,), device=device)
    step = steps.speed.engines
    if slow:
        with pytest.raises(runs.Failed) as failure:
            step(given._replace(robot=robot), runs.Deadline())
        assert all(figure in str(failure.value) for figure in slow)
        assert len(failure.value.figures["rows"]) == 2
    else:
        figures = step(given._replace(robot=robot), runs.Deadline())
        assert f"{mjx:,}" in figures["summary"]


@pytest.mark.parametrize(
    ("step", "fails", "missing", "measured"),
    [
        ("engines", "mjx 32", "mjx 32", 3),
        ("flags", "+WHILE", "with loops", 2),
        ("precision", " 32", "bfloat16", 0),
    ],
)
def test_a_missing_row_fails_the_step_and_says_why(
    steps: Any, sizes: Any, step: str, fails: str, missing: str, measured: int
) -> None:
    given = sizes({"fails": [fails]}, device=H200)
    with pytest.raises(steps.runs.Failed) as failure:
        steps.STEPS[step].run(given, steps.runs.Deadline())
    assert missing in str(failure.value)
    assert "no luck" in str(failure.value)
    rows = failure.value.figures.get("rows", [])
    assert sum("failed" not in row for row in rows) == measured


def test_every_setting_of_the_command_buffers_is_measured(steps: Any, sizes: Any) -> None:
    rows = steps.speed.flags(sizes({}), steps.runs.Deadline())["rows"]
    assert [row["env_steps_per_s"] for row in rows] == [100, 100, 100]


def test_all_runs_of_a_step_share_its_time(steps: Any, sizes: Any) -> None:
    runs, endless = steps.runs, sizes({"is_endless": True}, device=H200)
    deadline = runs.Deadline(0.5)
    with pytest.raises(runs.Failed) as failure:
        steps.speed.engines(endless, deadline)
    assert all("failed" in row for row in failure.value.figures["rows"])
    assert len(failure.value.figures["rows"]) == 4
    for name in ("doctor", "sizing", "resume", "training", "peer"):  # none of it is left
        with pytest.raises(runs.Failed):
            steps.STEPS[name].run(endless, deadline)


HOLDS = """
import fcntl, subprocess, sys
file = open(sys.argv[1])
fcntl.flock(file, fcntl.LOCK_EX)
subprocess.Popen(["sleep", "600"], pass_fds=[file.fileno()])
print("held", flush=True)
"""


@pytest.mark.parametrize("rest", ["", "import time; time.sleep(600)"])
def test_a_command_is_killed_with_what_it_started(steps: Any, tmp_path: Path, rest: str) -> None:
    """A process that the command started holds a lock, even where the command itself ended."""
    path = tmp_path / "lock"
    path.touch()
    with path.open() as file:
        with steps.runs.started([sys.executable, "-c", HOLDS + rest, str(path)]) as process:
            assert process.stdout.readline() == "held\n"
            with pytest.raises(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        for _ in range(600):  # the system takes a moment
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(0.1)
    pytest.fail("it is still held")


@pytest.mark.parametrize(("percent", "is_near"), [(-4.0, True), (4.0, True), (8.0, False)])
def test_expected_memory_is_held_against_the_drivers(
    steps: Any, sizes: Any, driver: Path, percent: float, is_near: bool
) -> None:
    used = 800 << 20
    given = sizes({"predicts": used * (1 + percent / 100), "uses": str(driver)})
    if is_near:
        figures = steps.steps.sizing(given, steps.runs.Deadline())
        assert figures["driver_bytes"] == used
        assert figures["off_percent"] == pytest.approx(percent)
    else:
        with pytest.raises(steps.runs.Failed):
            steps.steps.sizing(given, steps.runs.Deadline())


def test_memory_that_the_driver_does_not_tell_fails_the_step(
    steps: Any, sizes: Any, driver: Path
) -> None:
    with pytest.raises(steps.runs.Failed):
        steps.steps.sizing(sizes({"predicts": 1}), steps.runs.Deadline())


@pytest.mark.parametrize(
    ("given", "seconds", "passes"),
    [
        ({"ends_with": 16}, 460.0, True),
        ({"ends_with": 32}, 460.0, False),
        ({"fails": [" 32"]}, 0.5, False),
        ({"is_endless": True}, 1.0, False),
    ],
)
def test_a_run_must_shrink_when_its_memory_is_taken(
    steps: Any, sizes: Any, driver: Path, given: dict[str, Any], seconds: float, passes: bool
) -> None:
    runs, taken = steps.runs, []

    @contextlib.contextmanager
    def take(left: int) -> Iterator[None]:
        taken.append(left)
        yield

    def step() -> Any:
        return steps.steps.oom(sizes({"predicts": 1000, **given}), runs.Deadline(seconds), take)

    if passes:
        figures = step()
        assert (figures["asked"], figures["ended_with"], taken) == (32, 16, [600])
    else:
        with pytest.raises((runs.Failed, TimeoutError)):
            step()
