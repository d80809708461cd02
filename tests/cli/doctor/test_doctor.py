"""The command: every row, one last line, an exit code, and nothing left behind."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.results import Finding, worst
from jaxrl_hw.cli.doctor.runner import Check, Visit, run_checks
from jaxrl_hw.doctor import main

Doctor = Callable[..., subprocess.CompletedProcess[str]]
BROKEN = {"XLA_FLAGS": "--no_such_flag=1"}
"""XLA ends its process over a flag that it does not know: a short visit, and not a good one."""
CHECKS = [
    "version",
    "devices",
    "environment",
    "memory",
    "matmul",
    "physics",
    "training",
    "rendering",
    "run folder",
    "curves",
]


@pytest.mark.slow
def test_a_sound_installation_passes_and_is_left_as_it_was(doctor: Doctor, tmp_path: Path) -> None:
    began = time.monotonic()
    cache = tmp_path / "cache"
    done = doctor("--json", "--run-dir", tmp_path / "runs", JAXRL_HW_CACHE=str(cache))
    told = json.loads(done.stdout)
    failed = [row for row in told["rows"] if row["status"] == "fail"]
    assert (done.returncode, failed) == (0, [])
    assert told["status"] in ("pass", "warn")
    assert list(dict.fromkeys(row["check"] for row in told["rows"])) == CHECKS
    rows = {(row["check"], row["item"]): row for row in told["rows"]}
    for engine in ("native", "mjx"):
        assert 0.0 < rows["physics", engine]["figures"]["difference"] < 1e-3
    trained = rows["training", ""]["figures"]
    assert (trained["iteration"], trained["finite"]) == (2, True)
    assert trained["env_steps_per_s"] > 100
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "runs").exists()
    assert not cache.exists()
    assert time.monotonic() - began < 170  # a third of it where little else runs


@pytest.mark.slow
def test_a_crash_is_a_row_and_exit_code_1_in_a_table_and_as_data(
    doctor: Doctor, tmp_path: Path
) -> None:
    done = doctor("--json", "--run-dir", tmp_path / "runs", **BROKEN)
    told = json.loads(done.stdout)
    assert (done.returncode, told["status"]) == (1, "fail")
    assert told["counts"]["fail"] == sum(row["status"] == "fail" for row in told["rows"]) == 2
    assert "training a cartpole" not in done.stderr
    assert "opening devices ..." in done.stderr
    shown = doctor("--run-dir", tmp_path / "runs", COLUMNS="200", **BROKEN)
    assert (shown.returncode, shown.stderr) == (1, "")
    lines = shown.stdout.splitlines()
    assert lines[0] == "reading versions ..."
    table = [line for line in lines if re.match(r"(pass|warn|fail)  ", line)]
    assert len(table) == len(told["rows"])
    for line, row in zip(table, told["rows"], strict=True):
        assert line.split()[0] == row["status"]
        assert (row["item"] or row["check"]) in line
    assert any("-> unset XLA_FLAGS" in line for line in lines)
    count = told["counts"]
    start = f"{count['pass']} passed, {count['warn']} warnings, 2 failed (devices, environment:"
    assert lines[-1].startswith(start)
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(doctor: Doctor, tmp_path: Path, width: int) -> None:
    done = doctor("--run-dir", tmp_path / "runs", COLUMNS=str(width), **BROKEN)
    assert max(map(len, done.stdout.splitlines()[:-1])) <= width


@pytest.mark.slow
def test_without_rich_there_are_plain_lines(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "site" / "rich").mkdir(parents=True)
    (tmp_path / "site" / "rich" / "__init__.py").write_text("raise ImportError('no rich')")
    done = doctor("--run-dir", tmp_path / "runs", PYTHONPATH=str(tmp_path / "site"), **BROKEN)
    assert (done.returncode, done.stderr) == (1, "")
    assert "\nfail  devices  JAX opens none: " in done.stdout
    assert " failed (devices, " in done.stdout.splitlines()[-1]


def test_a_check_that_raises_is_a_row_and_the_next_is_made() -> None:
    def breaks(visit: Visit) -> list[Finding]:
        raise ZeroDivisionError("no\nluck")

    def works(visit: Visit) -> list[Finding]:
        return [Finding("second", "", "pass", "fine")]

    said: list[str] = []

    def under_way(label: str) -> contextlib.AbstractContextManager[None]:
        said.append(label)
        return contextlib.nullcontext()

    checks = [Check("first", "", "trying", breaks, "try again"), Check("second", "", "on", works)]
    rows = run_checks(checks, Visit(Path("runs"), Path("none")), under_way)
    assert rows[0] == Finding("first", "", "fail", "ZeroDivisionError: no luck", "try again")
    assert [row.status for row in rows] == ["fail", "pass"]
    assert (worst(rows), said) == ("fail", ["trying", "on"])


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--jsn"], 'unknown flag "--jsn"; did you mean "--json"? --help lists them'),
        (["--quick"], 'unknown flag "--quick"'),
        (["runs"], 'unexpected argument "runs"'),
        (["--run-dir"], "--run-dir: expected one argument"),
        (["--run-dir", ""], "--run-dir must be a folder, but got nothing; try --run-dir runs"),
        (["--run-dir", __file__], f"--run-dir must be a folder, but {__file__} is a file"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_ctrl_c_ends_it_and_what_it_has_started(plain: None, tmp_path: Path) -> None:
    # a shell has what it starts in the background ignore the signal; here it is to count
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from jaxrl_hw.doctor import main; sys.exit(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "--run-dir", str(tmp_path / "runs")],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("opening devices ..."):
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err.count("\n")) == (1, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_on_a_terminal_the_check_under_way_is_drawn(plain: None, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    env = {**os.environ, **BROKEN, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "jaxrl_hw.doctor", "--run-dir", str(tmp_path / "runs")]
    process = subprocess.Popen(command, env=env, stdout=follower, stderr=follower)
    os.close(follower)
    seen = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while chunk := os.read(leader, 4096):
            seen += chunk
    assert process.wait(timeout=60) == 1
    text = seen.decode()
    assert re.search(r"opening devices \.\.\. \d", text)
    assert "\x1b[1;31mfail" in text
