"""The run folder refuses what it cannot use, and its small files are whole or absent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.errors import RunError, UserError


def test_a_file_in_its_place_is_refused_in_one_line(tmp_path):
    (tmp_path / "run").write_text("precious")
    for path in (tmp_path / "run", tmp_path / "run/deeper"):
        with pytest.raises(UserError, match="run") as caught:
            RunDir(path).prepare()
        assert "\n" not in str(caught.value)
    assert (tmp_path / "run").read_text() == "precious"


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a place nobody can write to")
def test_a_place_that_cannot_be_written_is_refused():
    with pytest.raises((UserError, RunError), match="/proc/self/run"):
        RunDir("/proc/self/run").prepare()


def test_preparing_touches_nothing_of_an_existing_run(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = (tmp_path / "config.json").stat().st_mtime_ns
    RunDir(tmp_path).prepare()
    assert [p.name for p in tmp_path.iterdir()] == ["config.json"]
    assert (tmp_path / "config.json").stat().st_mtime_ns == before


def test_config_comes_back_with_its_surroundings(tmp_path):
    run = RunDir(tmp_path / "a" / "b")
    run.prepare()
    assert run.read_config() is None
    run.write_config({"robot": "g1", "net": {"activation": "tanh"}})
    assert run.read_config() == {"robot": "g1", "net": {"activation": "tanh"}}
    record = json.loads(run.config_json.read_text())
    assert set(record) == {"format", "id", "config", "versions", "git_commit"}
    assert record["format"] == 1
    assert "jax" in record["versions"]
    assert [p.name for p in run.path.iterdir()] == ["config.json"]


@pytest.mark.parametrize("text", ["", '{"config": {"robot": "g1"', "[1]", '{"format": 1}', "\x00"])
def test_a_damaged_config_names_the_file_and_what_to_do(tmp_path, text):
    run = RunDir(tmp_path)
    run.config_json.write_text(text)
    with pytest.raises(UserError, match="--run-dir") as caught:
        run.read_config()
    assert str(run.config_json) in str(caught.value)


def test_a_config_of_a_newer_format_is_refused(tmp_path):
    run = RunDir(tmp_path)
    run.config_json.write_text('{"format": 2, "config": {}}')
    with pytest.raises(UserError, match="format 2"):
        run.read_config()


def test_a_session_is_one_line_and_a_killed_one_counts(tmp_path):
    run = RunDir(tmp_path)
    code = (
        "import os, sys, signal; from jaxrl_hw.checkpointing.run_dir import RunDir;"
        "RunDir(sys.argv[1]).open_session({'first_iteration': 0});"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    run.open_session({"first_iteration": 5})
    run.close_session({"last_iteration": 9, "ended": "goal"})
    killed, finished = run.read_sessions()
    assert (killed["ended"], killed["first_iteration"]) == ("killed", 0)
    assert (finished["first_iteration"], finished["last_iteration"]) == (5, 9)
    assert finished["ended"] == "goal"
    assert "pid" not in finished
    assert not run.session_open.exists()


def test_two_processes_may_not_train_in_one_folder(tmp_path):
    code = (
        "import sys; from jaxrl_hw.checkpointing.run_dir import RunDir;"
        "RunDir(sys.argv[1]).open_session({}); print('open', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(UserError, match=str(other.pid)):
            RunDir(tmp_path).open_session({})
        other.communicate()
    RunDir(tmp_path).open_session({})
    assert RunDir(tmp_path).read_sessions()[0]["ended"] == "killed"


def test_a_cut_line_does_not_swallow_the_next_session(tmp_path):
    run = RunDir(tmp_path)
    run.sessions_jsonl.write_text('{"ended": "goal"}\n{"ended": "ti')
    run.append_session({"ended": "SIGTERM"})
    assert [s["ended"] for s in run.read_sessions()] == ["goal", "SIGTERM"]
