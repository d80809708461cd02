"""Weights & Biases gets a run's rows, and nothing that it does reaches the training.

The package is a fake one: it writes down what it is told, and fails where it is told to.
"""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.loggers.wandb_log import WandbLog
from jaxrl_hw.loggers.wandb_process import why_offline
from jaxrl_hw.train import main

without_the_package = pytest.mark.skipif(
    importlib.util.find_spec("wandb") is not None, reason="wandb is installed here"
)

FAKE = """
import json, os, pathlib, time

__version__ = os.environ.get("FAKE_VERSION", "0.31.0")

def note(**what):
    with open(os.environ["FAKE_LOG"], "a") as file:
        file.write(json.dumps(what) + "\\n")

def trouble(where):
    if os.environ.get("FAKE_RAISES") == where:
        raise OSError("no room on their server")
    if os.environ.get("FAKE_HANGS") == where:
        time.sleep(600)

class Run:
    def __init__(self, folder):
        self.dir = str(folder)
    def log(self, row, step):
        trouble("log")
        note(step=step, value=row.get("episode_return"), names=sorted(row))
    def finish(self):
        trouble("finish")
        note(finished=True)

def init(**told):
    trouble("init")
    note(**{name: told[name] for name in ("id", "mode", "project", "resume", "config")})
    kind = "offline-run" if told["mode"] == "offline" else "run"
    home = pathlib.Path(told["dir"]) / "wandb"
    folder = home / f"{kind}-{len(list(home.glob('*')))}-{told['id']}" / "files"
    folder.mkdir(parents=True)
    (folder.parent / f"run-{told['id']}.wandb").touch()
    print("a package that prints")
    return Run(folder)
"""


class Told(list[str]):
    """What the user was told."""

    def __call__(self, text: str) -> None:
        self.append(text)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the fake package writes down what it is told."""
    (tmp_path / "site" / "wandb").mkdir(parents=True)
    (tmp_path / "site" / "wandb" / "__init__.py").write_text(FAKE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "told.jsonl"))
    return tmp_path / "told.jsonl"


def told(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def log_rows(folder: Path, count: int, mode: str = "auto", patience_s: float = 60.0) -> Told:
    """Log rows of iterations 1 to count; what the user was told."""
    heard = Told()
    log = WandbLog(mode, heard, heard, patience_s)
    log.start(folder, "abc", "run", {"num_envs": 16})
    for iteration in range(1, count + 1):
        log.append({"iteration": iteration, "episode_return": 2.0 * iteration, "kl": None})
    log.close()
    return heard


@pytest.mark.parametrize("mode", ["auto", "offline"])
def test_rows_go_to_the_run_of_one_id_and_offline_by_itself(
    mode: str, fake: Path, tmp_path: Path
) -> None:
    heard = log_rows(tmp_path, 2, mode)
    begin, *rows, end = told(fake)
    assert (begin["id"], begin["mode"], begin["resume"]) == ("abc", "offline", "allow")
    assert [(row["step"], row["value"]) for row in rows] == [(1, 2.0), (2, 4.0)]
    assert rows[0]["names"] == ["episode_return", "iteration"], "no value, no point"
    assert end == {"finished": True}
    assert synced(heard[-1]) == [tmp_path / "wandb" / "offline-run-0-abc"]


def synced(line: str) -> list[Path]:
    """The folders that the command in the line sends, as a shell reads it."""
    command = line[line.index("wandb sync") :]
    words = subprocess.run(
        ["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True
    )
    return [Path(word) for word in words.stdout.splitlines()[2:] if not word.startswith("--")]


@pytest.mark.parametrize(("version", "append"), [("0.22.3", True), ("0.31.0", False)])
def test_one_command_sends_every_offline_session_of_the_run(
    version: str, append: bool, fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_VERSION", version)
    folder = tmp_path / "a run"
    other = folder / "wandb" / "offline-run-9-xyz"
    other.mkdir(parents=True)
    sessions = [folder / "wandb" / f"offline-run-{n}-abc" for n in (1, 2, 3)]
    for count in (1, 2, 3):
        heard = log_rows(folder, 1, "offline")
        assert synced(heard[-1]) == sessions[:count]
        assert ("--append" in heard[-1]) == append
    (sessions[0] / "run-abc.wandb.synced").touch()
    (sessions[1] / "run-abc.wandb.synced").touch()
    heard = log_rows(folder, 1, "offline")
    assert synced(heard[-1]) == [sessions[2], folder / "wandb" / "offline-run-4-abc"]


def test_a_session_that_was_sent_needs_no_command_and_one_that_was_cut_off_does(
    fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("localhost", 0)) as server:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://localhost:{server.getsockname()[1]}")
        monkeypatch.setenv("WANDB_API_KEY", "k")
        heard = log_rows(tmp_path, 1)
        assert not any("wandb sync" in line for line in heard)
        monkeypatch.setenv("FAKE_RAISES", "finish")
        heard = log_rows(tmp_path, 1)
    assert synced(heard[-1]) == [tmp_path / "wandb" / "run-1-abc"]
    assert "--include-online" in heard[-1]


@pytest.mark.parametrize("where", ["init", "log", "finish"])
def test_a_failure_is_one_line(
    where: str, fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_RAISES", where)
    heard = log_rows(tmp_path, 3)
    assert len([line for line in heard if "no room on their server" in line]) == 1


@pytest.mark.parametrize("where", ["init", "log", "finish"])
def test_one_that_hangs_holds_up_nobody(
    where: str, fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_HANGS", where)
    heard, began, others = Told(), time.monotonic(), set(psutil.Process().children())
    log = WandbLog("auto", heard, heard, patience_s=3.0)
    log.start(tmp_path, "abc", "run", {"num_envs": 16})
    row = {"iteration": 1, "episode_return": 1.0, "text": "x" * 1000}
    for _ in range(3000):  # more than the queue and the pipe hold
        log.append(row)
    assert time.monotonic() - began < 60.0
    assert set(psutil.Process().children()) - others
    log.close()
    assert any("3 s" in line for line in heard)
    assert set(psutil.Process().children()) <= others, "nothing stays behind"


def test_off_sends_nothing(fake: Path, tmp_path: Path) -> None:
    assert log_rows(tmp_path, 1, "off") == []
    assert told(fake) == []


@without_the_package
def test_without_the_package_auto_says_so_once(tmp_path: Path) -> None:
    (line,) = log_rows(tmp_path, 2)
    assert "pip install" in line


@pytest.mark.parametrize(
    ("environ", "word"),
    [
        ({"WANDB_MODE": "offline", "WANDB_API_KEY": "k"}, "WANDB_MODE"),
        ({}, "login"),
        ({"WANDB_API_KEY": "k", "WANDB_BASE_URL": "http://localhost:1"}, "localhost"),
    ],
)
def test_it_is_offline_without_a_login_or_a_network(
    environ: dict[str, str], word: str, tmp_path: Path
) -> None:
    assert word in why_offline({"NETRC": str(tmp_path / "none"), **environ})


def test_a_login_in_netrc_counts(tmp_path: Path) -> None:
    path = tmp_path / "netrc"
    path.write_text("machine localhost login user password key\n")
    path.chmod(0o600)
    environ = {"NETRC": str(path), "WANDB_BASE_URL": "http://localhost:1"}
    assert "login" not in why_offline(environ)


def train(*argv: str | Path) -> int:
    return main(["--robot", "cartpole", *map(str, argv)])


def begins_of(log: Path) -> list[dict[str, Any]]:
    return [line for line in told(log) if "id" in line]


@pytest.mark.slow
def test_chained_sessions_of_the_command_are_one_curve(
    fake: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    small = ["--num-envs", "16", "--ppo.unroll", "4", "--net.policy", "16", "--no-tensorboard"]
    for goal in ("2", "3"):
        where = ["--run-dir", tmp_path / "run", "--wandb", "auto", "--iterations", goal]
        assert train(*small, *where) == 0
        sent = synced(capsys.readouterr().out.splitlines()[-1])
    assert len(sent) == len(begins_of(fake)) == 2
    assert [line["id"] for line in begins_of(fake)] == [RunDir(tmp_path / "run").read_id()] * 2
    assert [line["step"] for line in told(fake) if "step" in line] == [1, 2, 3]


@without_the_package
def test_offline_without_the_package_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("--run-dir", tmp_path, "--wandb", "offline") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "pip install" in error
    assert not any(tmp_path.iterdir())
