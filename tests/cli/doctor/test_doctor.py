"""The command: every row, one last line, an exit code, and nothing left behind."""

from __future__ import annotations

import contextlib
import io
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
from rich.console import Console

from jaxrl_hw.cli.doctor.checks import Check, run_checks
from jaxrl_hw.cli.doctor.results import CheckResult, Context, table, worst
from jaxrl_hw.doctor import main

Doctor = Callable[..., subprocess.CompletedProcess[str]]
BROKEN = {"XLA_FLAGS": "--no_such_flag=1"}
"""XLA ends its process over a flag that it does not know, so nothing slow follows."""
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
    cache = tmp_path / "cache"
    quick = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "True", "JAXRL_HW_CACHE": str(cache)}
    done = doctor("--json", "--run-dir", tmp_path / "runs", **quick)
    data = json.loads(done.stdout)
    assert set(data) == {"status", "counts", "seconds", "rows"}
    failed = [row for row in data["rows"] if row["status"] == "fail"]
    assert (done.returncode, failed) == (0, [])
    assert data["status"] in ("pass", "warn")
    keys = {"check", "item", "status", "value", "advice", "figures"}
    assert all(set(row) == keys for row in data["rows"])
    assert list(dict.fromkeys(row["check"] for row in data["rows"])) == CHECKS
    rows = {(row["check"], row["item"]): row for row in data["rows"]}
    for engine in ("native", "mjx"):
        assert 0.0 < rows["physics", engine]["figures"]["difference"] < 1e-3
    trained = rows["training", ""]["figures"]
    assert (trained["iteration"], trained["finite"]) == (2, True)
    assert trained["env_steps_per_s"] > 0
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "runs").exists()
    assert not cache.exists()


@pytest.mark.slow
def test_a_crash_is_a_row_and_exit_code_1_in_a_table_and_as_data(
    doctor: Doctor, tmp_path: Path
) -> None:
    done = doctor("--json", "--run-dir", tmp_path / "runs", **BROKEN)
    data = json.loads(done.stdout)
    assert (done.returncode, data["status"]) == (1, "fail")
    failed = [row["check"] for row in data["rows"] if row["status"] == "fail"]
    assert failed == ["devices", "environment"]
    assert data["counts"]["fail"] == 2
    assert done.stderr.count(" ...\n") == 7  # of eleven checks, four need a device
    shown = doctor("--run-dir", tmp_path / "runs", COLUMNS="200", **BROKEN)
    assert (shown.returncode, shown.stderr) == (1, "")
    lines = shown.stdout.splitlines()
    table = [line for line in lines if re.match(r"(pass|warn|fail)  ", line)]
    assert len(table) == len(data["rows"])
    for line, row in zip(table, data["rows"], strict=True):
        assert line.split()[0] == row["status"]
        assert (row["item"] or row["check"]) in line
    assert any(line.strip() == "-> unset XLA_FLAGS" for line in lines)
    assert "devices, environment" in lines[-1]
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long, path = " ".join(["measured"] * 40), "/".join(["folder"] * 40)
    rows = [CheckResult(item, long, path, check="memory") for item in ("NVML", "nvidia-smi")]
    text = io.StringIO()
    Console(file=text, width=width).print(table(rows))
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    assert sum(line.startswith("warn") for line in lines) == 2


@pytest.mark.slow
def test_without_rich_there_are_plain_lines(doctor: Doctor, tmp_path: Path) -> None:
    (tmp_path / "site" / "rich").mkdir(parents=True)
    (tmp_path / "site" / "rich" / "__init__.py").write_text("raise ImportError('no rich')")
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    done = doctor("--run-dir", tmp_path / "runs", PYTHONPATH=path, **BROKEN)
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert any(line.startswith("fail  devices  ") for line in lines)
    assert "devices, " in lines[-1]


def test_a_check_that_raises_is_a_row_and_the_next_runs() -> None:
    def breaks(context: Context) -> list[CheckResult]:
        raise ZeroDivisionError("no\nluck")

    def works(context: Context) -> list[CheckResult]:
        return [CheckResult("", "fine")]

    labels: list[str] = []

    def progress(label: str) -> contextlib.AbstractContextManager[None]:
        labels.append(label)
        return contextlib.nullcontext()

    checks = [Check("first", "", "trying", breaks, "try again"), Check("second", "", "on", works)]
    rows = run_checks(checks, Context(Path("runs"), Path("none")), progress)
    expected = CheckResult("", "ZeroDivisionError: no luck", "try again", {}, "fail", "first")
    assert rows[0] == expected
    assert [row.status for row in rows] == ["fail", "pass"]
    assert (worst(rows), labels) == ("fail", ["trying", "on"])


@pytest.mark.parametrize(
    ("argv", "value"),
    [
        (["--jsn"], '"--json"'),
        (["--quick"], '"--quick"'),
        (["runs"], '"runs"'),
        (["--run-dir"], "--run-dir"),
        (["--run-dir", ""], '""'),
        (["--run-dir", __file__], __file__),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    argv: list[str], value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert value in err


def test_ctrl_c_ends_it_and_what_it_has_started(plain: None, tmp_path: Path) -> None:
    # a shell has its background processes ignore the signal; here it counts
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
        if "devices ..." in line:
            break
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert (process.returncode, err.count("\n")) == (1, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_terminal_shows_the_running_check_and_colours(plain: None, tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    env = {**os.environ, **BROKEN, "TERM": "xterm", "COLUMNS": "80"}
    command = [sys.executable, "-m", "jaxrl_hw.doctor", "--run-dir", str(tmp_path / "runs")]
    process = subprocess.Popen(command, env=env, stdout=follower, stderr=follower)
    os.close(follower)
    seen = b""
    with contextlib.suppress(OSError):  # the other end is closed
        while chunk := os.read(leader, 4096):
            seen += chunk
    assert process.wait(timeout=600) == 1
    text = seen.decode()
    assert "\x1b[2K" in text  # a line is erased and drawn again
    assert "\x1b[1;31mfail" in text


def test_a_choice_of_checks_opens_the_devices_and_nothing_more(doctor: Doctor) -> None:
    done = doctor("--json", "--only", "version", "run folder")
    checks = {row["check"] for row in json.loads(done.stdout)["rows"]}
    assert (done.returncode, checks) == (0, {"version", "devices", "run folder"})
    assert main(["--only", "versoin"]) == 2
