"""A function called apart can do what it likes: whoever asks gets a result or one line."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from jaxrl_hw.cli.doctor.check_disk import write
from jaxrl_hw.cli.doctor.run_in_subprocess import NoResult, call


def test_results_travel_and_what_is_printed_is_none() -> None:
    assert call(os.path.join, "a", "b", limit_s=20) == "a/b"
    assert call(print, '{"result": 1}', limit_s=20) is None


def test_an_exception_is_one_line() -> None:
    with pytest.raises(NoResult, match=r"^JSONDecodeError: Expecting") as told:
        call(json.loads, "{", limit_s=20)
    assert "\n" not in str(told.value)
    with pytest.raises(NoResult, match=r"^/proc/none/at/all cannot be written: "):
        call(write, "/proc/none/at/all", limit_s=20)


def test_a_crash_names_its_signal() -> None:
    with pytest.raises(NoResult, match=r"^the process was ended by SIGABRT"):
        call(os.abort, limit_s=20)
    with pytest.raises(NoResult, match=r"^the process ended with exit code 7$"):
        call(os._exit, 7, limit_s=20)


@pytest.mark.slow
def test_a_hang_ends_with_its_time_limit_and_so_do_its_children(tmp_path: Path) -> None:
    note, began = tmp_path / "pid", time.monotonic()
    with pytest.raises(NoResult, match=r"^no answer within 1\.5 s: ended$"):
        call(os.system, f"sleep 300 & echo $! > {note}; wait", limit_s=1.5)
    assert time.monotonic() - began < 10
    assert not _runs(int(note.read_text()))
    with pytest.raises(NoResult, match="no answer"):
        call(time.sleep, 300, limit_s=0.5)


def _runs(pid: int) -> bool:
    """Whether a process does anything; one that ended may still be listed, as a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
