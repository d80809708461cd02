"""Whatever a function in a subprocess does, its caller gets a result or one line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.check_disk import write
from jaxrl_hw.cli.doctor.run_in_subprocess import CallError, run_in_subprocess


def test_a_result_returns_and_what_is_printed_does_not() -> None:
    assert run_in_subprocess(os.path.join, "a", "b", timeout_s=60) == "a/b"
    assert run_in_subprocess(print, '{"result": 1}', timeout_s=60) is None


def test_an_exception_is_one_line() -> None:
    with pytest.raises(CallError) as caught:
        run_in_subprocess(json.loads, "{", timeout_s=60)
    assert "JSONDecodeError" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(CallError, match="/proc/none/at/all") as caught:
        run_in_subprocess(write, "/proc/none/at/all", timeout_s=60)
    assert "RunError" not in str(caught.value)  # our own errors are for users


def test_a_crash_names_its_signal_or_exit_code() -> None:
    with pytest.raises(CallError, match="SIGABRT"):
        run_in_subprocess(os.abort, timeout_s=60)
    with pytest.raises(CallError, match=r"\b7\b"):
        run_in_subprocess(os._exit, 7, timeout_s=60)


@pytest.mark.slow
def test_a_hang_ends_with_its_time_limit_and_so_do_its_children(tmp_path: Path) -> None:
    note, ended = tmp_path / "pid", tmp_path / "ended"
    with pytest.raises(CallError, match=r"\b5 s\b"):
        run_in_subprocess(
            os.system, f"sleep 300 & echo $! > {note}; wait; touch {ended}", timeout_s=5
        )
    assert not ended.exists()
    assert not _is_running(int(note.read_text()))


def _is_running(pid: int) -> bool:
    """Whether a process runs; one that ended may still be listed, as a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
