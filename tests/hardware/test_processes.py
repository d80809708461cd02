"""Which of several processes one is: what flags and SLURM say, and what is refused."""

from __future__ import annotations

import pytest

from jaxrl_hw.cli.process_flags import taken_processes
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.processes import Processes

SLURM = {
    "SLURM_JOB_ID": "70123",
    "SLURM_NTASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_STEP_NODELIST": "gpu[07-09,12],big1",
}


def test_flags_name_the_coordinator_and_leave_the_rest() -> None:
    rest = ["--robot", "go1", "--seed", "1"]
    argv = ["--coordinator", "node1:7601", "--num-processes", "4", "--process_id=3"]
    found, left = taken_processes([*rest[:2], *argv, *rest[2:]], {})
    assert found == Processes("node1", 7601, 4, 3)
    assert left == rest
    assert taken_processes(rest, SLURM) == (None, rest)


def test_a_single_process_trains_alone() -> None:
    argv = ["--coordinator", "node1:7601", "--num-processes", "1", "--process-id", "0"]
    assert taken_processes(argv, {}) == (None, [])


def test_slurm_says_what_flags_leave_out() -> None:
    found, _ = taken_processes(["--coordinator", "slurm", "--connect-timeout", "5m"], SLURM)
    assert found is not None
    assert (found.host, found.number, found.index, found.timeout_s) == ("gpu07", 4, 3, 300.0)
    assert 1024 <= found.port < 65536
    one = {**SLURM, "SLURM_STEP_NODELIST": "node-1"}
    assert taken_processes(["--coordinator", "slurm"], one)[0].host == "node-1"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ("--num-processes 2", "--coordinator"),
        ("--coordinator node1 --num-processes 2 --process-id 0", "HOST:PORT"),
        ("--coordinator node1:99999 --num-processes 2 --process-id 0", "99999"),
        ("--coordinator node1:7601 --process-id 0", "--num-processes"),
        ("--coordinator node1:7601 --num-processes 2", "--process-id"),
        ("--coordinator node1:7601 --num-processes 2 --process-id 2", "0 to 1"),
        ("--coordinator node1:7601 --num-processes 0 --process-id 0", "at least 1"),
        ("--coordinator node1:7601 --num-processes 2 --process-id x", '"x"'),
        ("--coordinator node1:7601 --num-processes 2 --process-id 0 --connect-timeout 0s", "0s"),
        ("--coordinator slurm", "SLURM_JOB_ID"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(words: str, word: str) -> None:
    with pytest.raises(UserError) as refused:
        taken_processes(words.split(), {})
    assert word in str(refused.value)
    assert "\n" not in str(refused.value)
