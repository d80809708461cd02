"""Which of the processes of a run this one is: told by flags, or by SLURM."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jaxrl_hw.errors import UserError

SLURM = "slurm"
"""A coordinator that stands for what SLURM's variables say."""
TIMEOUT_S = 60.0

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.%]+\]|[^\s:\[\]]+):(\d{1,5})")
_FIRST_NODE = re.compile(r"([^,\[]+)(?:\[([^,\-\]]+))?")


@dataclass(frozen=True)
class Processes:
    """One process of several that train one run together."""

    host: str
    """Of process 0, the coordinator."""
    port: int
    number: int
    index: int
    """From 0 to number - 1."""
    timeout_s: float = TIMEOUT_S
    """How long the others are waited for at the start, and until a machine that no longer answers
    counts as gone."""

    @property
    def coordinator(self) -> str:
        return f"{self.host}:{self.port}"


def processes_of(
    coordinator: str,
    number: int | None,
    index: int | None,
    environ: Mapping[str, str],
    timeout_s: float = TIMEOUT_S,
) -> Processes:
    """What the flags say; what they leave out is SLURM's where the coordinator is "slurm".

    coordinator: "HOST:PORT" or "slurm".
    Raises UserError for an address, a number or an index that cannot be used.
    """
    if coordinator == SLURM:
        coordinator, number, index = _of_slurm(environ, number, index)
    match = _ADDRESS.fullmatch(coordinator)
    if match is None or not 0 < int(match[2]) < 2**16:
        raise UserError(
            f'--coordinator must be HOST:PORT of process 0, such as node1:7601, or "{SLURM}", got '
            f'"{coordinator}"'
        )
    for flag, value in (("--num-processes", number), ("--process-id", index)):
        if value is None:
            raise UserError(f"--coordinator {coordinator} needs {flag} beside it, got none")
    assert number is not None
    assert index is not None
    if number < 1:
        raise UserError(f"--num-processes must be at least 1, got {number}")
    if not 0 <= index < number:
        raise UserError(
            f"--process-id must be from 0 to {number - 1} with --num-processes {number}, got "
            f"{index}"
        )
    if timeout_s <= 0:
        raise UserError(f"--connect-timeout must be more than 0 s, got {timeout_s:g} s")
    return Processes(match[1].strip("[]"), int(match[2]), number, index, timeout_s)


def _of_slurm(
    environ: Mapping[str, str], number: int | None, index: int | None
) -> tuple[str, int, int]:
    """Address, number and index of a SLURM task. The port follows from the job's number, so that
    two jobs on one node hardly meet."""
    found = {}
    for name in ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_STEP_NODELIST"):
        found[name] = environ.get(name, "")
        if not found[name] or (name != "SLURM_STEP_NODELIST" and not found[name].isdecimal()):
            raise UserError(
                f"--coordinator {SLURM} needs {name}, which is "
                f"{found[name] or 'not set'}: start the command with srun, or give HOST:PORT"
            )
    first = _FIRST_NODE.match(found["SLURM_STEP_NODELIST"])
    assert first is not None
    port = 61440 + int(found["SLURM_JOB_ID"]) % 4096
    return (
        f"{first[1]}{first[2] or ''}:{port}",
        int(found["SLURM_NTASKS"]) if number is None else number,
        int(found["SLURM_PROCID"]) if index is None else index,
    )
