"""Several processes train one run, over the loopback of this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jaxrl_hw.train import main

RTOL, ATOL = 2e-3, 2e-5
"""As in test_devices: who computes which part changes the order of sums alone."""

TINY = """
import dataclasses, io, os, signal, sys
import jaxrl_hw as jh
from jaxrl_hw.cli.command import run_command
from jaxrl_hw.loggers.console import Console
from jaxrl_hw.training.star import leave
from jaxrl_hw.training.stopping import FINISHED

def tiny(folder, **changes):
    base = jh.preset_config("cartpole")
    ppo = dataclasses.replace(base.ppo, unroll=4, epochs=2, minibatch_size=32)
    net = jh.NetConfig(policy=(16,), value=(16,))
    return dataclasses.replace(
        base, run_dir=folder, iterations=6, save_every=1, net=net, ppo=ppo, seed=3,
        physics="native", tensorboard=False, **changes
    )
"""

SESSION = """
from jaxrl_hw.hardware.processes import Processes

folder, port, index, what, at, pid = sys.argv[1:]
if index == "1":
    open(pid, "w").write(str(os.getpid()))

def build(plan, env, algorithm, **rest):
    from jaxrl_hw.training.build import Built, build_step
    if env.num_envs == 16:
        return build_step(plan, env, algorithm, **rest)
    if index == "1":
        raise MemoryError
    return Built(plan, env, algorithm, step=None, items=None)

def after(row):
    assert index == "0"
    if row["iteration"] == int(at):
        os.kill(int(open(pid).read()), getattr(signal, what))

def body():
    processes = Processes("127.0.0.1", int(port), 2, int(index))
    run = jh.fit(tiny(folder, num_envs=32), after, build=build, processes=processes)
    return 0 if run.ended in FINISHED else 75

sys.exit(leave(run_command(body)))
"""

UNSTABLE = """
from jaxrl_hw.hardware.processes import Processes

folder, port, index = sys.argv[1:]

def build(plan, env, algorithm, **rest):
    from jaxrl_hw.training.build import build_step
    built = build_step(plan, env, algorithm, **rest)

    def step(state):
        state, metrics = built.step(state)
        is_bad = plan.config.ppo.learning_rate > 1.5e-3 and int(state.iteration) in (3, 4)
        return state, {**metrics, "skipped_updates": metrics["skipped_updates"] + is_bad}

    return built._replace(step=step)

def body():
    processes = Processes("127.0.0.1", int(port), 2, int(index))
    config = tiny(folder, num_envs=16, nan_patience=2)
    run = jh.fit(config, build=build, processes=processes)
    return 0 if run.ended in FINISHED else 75

sys.exit(leave(run_command(body)))
"""

ALONE = """
for folder in sys.argv[1:]:
    config = dataclasses.replace(tiny(folder, num_envs=16, devices=2), iterations=7)
    assert jh.fit(config, console=Console(io.StringIO())).ended == "goal"
"""


def start(script: str, *argv: Any, devices: int = 1) -> subprocess.Popen[str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    env = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", script, *map(str, argv)]
    return subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ends(*processes: subprocess.Popen[str]) -> list[tuple[int, str]]:
    """(exit code, stderr) of each; none may take for ever."""
    try:
        said = [process.communicate(timeout=240)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [(process.returncode, text) for process, text in zip(processes, said, strict=True)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_two_processes_train_stop_shrink_and_continue_as_one_does(tmp_path: Path) -> None:
    together, alone = tmp_path / "together", tmp_path / "alone"

    def session(what: str, at: int = 0) -> list[tuple[int, str]]:
        port, pid = free_port(), tmp_path / "pid"
        return ends(*(start(TINY + SESSION, together, port, i, what, at, pid) for i in range(2)))

    def sessions() -> list[dict[str, Any]]:
        lines = (together / "sessions.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    # 32 environments are too many for process 1, and a signal to it stops both
    stopped = session("SIGTERM", 1)
    assert [code for code, _ in stopped] == [75, 75], stopped
    (first,) = sessions()
    assert first["num_envs"] == 16
    assert first["processes"] == 2
    assert first["ended"] == "SIGTERM"
    assert first["last_iteration"] in (1, 2)

    # the same command continues; where one is killed the other one ends, and says which
    (code, text), (killed, _) = session("SIGKILL", 3)
    assert code == 1, text
    assert killed == -9
    assert "process 1" in text
    assert "Traceback" not in text
    assert sessions()[-1]["first_iteration"] == first["last_iteration"] + 1

    # both go on with the same command, from the newest checkpoint to the goal
    ended = session("none")
    assert [code for code, _ in ended] == [0, 0], ended
    last = sessions()[-1]
    assert (last["processes"], last["ended"], last["last_iteration"]) == (2, "goal", 6)
    assert 3 <= last["first_iteration"] <= 5  # the kill, after row 3, may come before its save

    # another number of processes continues, and the run is the one that was never interrupted
    ((code, text),) = ends(start(TINY + ALONE, together, alone, devices=2))
    assert code == 0, text
    states = [rows(folder) for folder in (together, alone)]
    assert [row["iteration"] for row in states[0]] == [1, 2, 3, 4, 5, 6, 7]
    for key in ("loss/value", "kl", "reward/total", "lr", "episode_return"):
        values = [[np.nan if r[key] is None else r[key] for r in run] for run in states]
        np.testing.assert_allclose(*values, RTOL, ATOL, err_msg=key)


@pytest.mark.slow
def test_two_processes_go_back_together_after_updates_that_are_not_finite(tmp_path: Path) -> None:
    folder, port = tmp_path / "run", free_port()
    ended = ends(*(start(TINY + UNSTABLE, folder, port, index) for index in range(2)))
    assert [code for code, _ in ended] == [0, 0], ended
    assert [row["iteration"] for row in rows(folder)] == [1, 2, 3, 4, 5, 6]
    lines = (folder / "sessions.jsonl").read_text().splitlines()
    first, second = (json.loads(line) for line in lines)
    assert (first["ended"], first["last_iteration"]) == ("unstable", 4)
    assert (second["ended"], second["first_iteration"]) == ("goal", 3)
    before, after = second["halved"][0]["ppo.learning_rate"]
    assert after == before / 2


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


STAR = """
import os, sys, time
from jaxrl_hw.cli.command import run_command
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.processes import Processes
from jaxrl_hw.training.star import Star, leave

port, number, index, case = sys.argv[1:]
index = int(index)

def body():
    with Star(Processes("127.0.0.1", int(port), int(number), index, 30.0), {"says": index}) as star:
        assert [hello["says"] for hello in star.hellos] == list(range(star.number))
        assert star.round(10 * index) == [10 * i for i in range(star.number)]
        assert star.share(b"first" if index == 0 else b"") == b"first"
        mine = bytes([index]) * 3_000_000
        others = [bytes([i]) * 3_000_000 for i in range(1, star.number)]
        assert star.collect(mine) == (others if index == 0 else [])
        assert star.stopped("SIGTERM" if index == 1 else None) == "SIGTERM"
        assert star.decided({"a": index}) == {"a": 0}
        if case == "refuses" and index == 1:
            raise UserError("one line")
        if case.startswith("killed") and index == int(case[-1]):
            os.kill(os.getpid(), 9)
        if case == "killed 0":
            time.sleep(600)  # as in a computation that waits for the one that is gone
        star.round(None)
    return 0

sys.exit(leave(run_command(body)))
"""


@pytest.mark.parametrize(
    ("case", "codes"),
    [
        ("ends", (0, 0, 0)),
        ("killed 0", (-9, 1, 1)),
        ("killed 1", (1, -9, 1)),
        ("refuses", (2, 2, 2)),
    ],
)
def test_all_processes_end_with_one_that_is_gone(case: str, codes: tuple[int, ...]) -> None:
    port = free_port()
    ended = ends(*(start(STAR, port, 3, index, case) for index in range(3)))
    assert tuple(code for code, _ in ended) == codes, ended
    for code, text in ended:
        assert len(text.splitlines()) == (1 if code > 0 else 0), text
    gone = {"killed 0": "process 0", "killed 1": "process 1", "refuses": "one line"}
    assert all(gone[case] in text for code, text in ended if code > 0)


TRAIN = "import sys; from jaxrl_hw.train import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.slow
def test_other_settings_than_those_of_process_0_are_refused_by_all(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    argv = ["--robot", "cartpole", "--run-dir", str(folder), "--num-processes", "2"]
    argv += ["--coordinator", f"127.0.0.1:{free_port()}"]
    other = ["--process-id", "1", "--ppo.gamma", "0.9"]
    ended = ends(start(TRAIN, *argv, "--process-id", "0"), start(TRAIN, *argv, *other))
    for code, text in ended:
        assert code == 2
        assert "--ppo.gamma 0.9" in text
        assert len(text.splitlines()) == 1
    assert not folder.exists()


@pytest.mark.parametrize("index", [0, 1])
def test_a_process_that_does_not_come_ends_the_command_with_code_2(
    index: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    argv = ["--robot", "cartpole", "--run-dir", str(tmp_path / "run"), "--num-processes", "2"]
    argv += ["--coordinator", address, "--process-id", str(index), "--connect-timeout", "0.3s"]
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert address in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "run").exists()
