"""Weights & Biases gets a run's rows, and nothing that it does reaches the training.

The package is a fake one: it writes down what it is told, and fails where it is told to.
"""

from __future__ import annotations

import importlib.util
import json
import os
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
    folder = pathlib.Path(told["dir"]) / "wandb" / f"{told['mode']}-run" / "files"
    folder.mkdir(parents=True, exist_ok=True)
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
    assert f"wandb sync {tmp_path / 'wandb' / 'offline-run'}" in heard[-1]


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
        assert "wandb sync" in capsys.readouterr().out.splitlines()[-1]
    begins = [line for line in told(fake) if "id" in line]
    assert [line["id"] for line in begins] == [RunDir(tmp_path / "run").read_id()] * 2
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
