"""The flags that tell a process of several which one it is: of the process, not of the run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence

from jaxrl_hw.cli.arguments import OneLineParser, whole_number
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.units import parse_duration
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.processes import TIMEOUT_S, Processes, processes_of

PROCESS_FLAGS = {
    "--coordinator HOST:PORT|slurm": "Train one run on several machines: each starts this command "
    "with the address of process 0; slurm: srun starts it, and says the rest.",
    "--num-processes N": "How many there are.",
    "--process-id I": "Which of them this is, from 0.",
    "--connect-timeout 60s": "How long they wait for each other.",
}
"""The flags as `--help` shows them."""


def taken_processes(
    argv: Sequence[str], environ: Mapping[str, str] = os.environ
) -> tuple[Processes | None, list[str]]:
    """Which process this is, None where it trains alone; and the words that are left.

    Raises UserError where the flags do not go together or cannot be used.
    """
    parser = OneLineParser(add_help=False, argument_default=argparse.SUPPRESS)
    parser.add_argument("--coordinator")
    parser.add_argument("--num-processes", "--num_processes", type=whole_number)
    parser.add_argument("--process-id", "--process_id", type=whole_number)
    parser.add_argument("--connect-timeout", "--connect_timeout")
    found, rest = parser.parse_known_args(argv)
    given = vars(found)
    if "coordinator" not in given:
        for name in given:
            flag = f"--{name.replace('_', '-')}"
            raise UserError(f"{flag} needs --coordinator HOST:PORT beside it, of process 0")
        return None, rest
    timeout_s = TIMEOUT_S
    if "connect_timeout" in given:
        timeout_s = parse_duration(given["connect_timeout"], "--connect-timeout")
    processes = processes_of(
        given["coordinator"],
        given.get("num_processes"),
        given.get("process_id"),
        environ,
        timeout_s,
    )
    return processes if processes.number > 1 else None, rest


def check_seeds(config: Config, processes: Processes | None) -> None:
    """Raises UserError where several processes were to train several seeds."""
    if config.seeds > 1 and processes is not None:
        raise UserError(
            f"--coordinator does not go with --seeds {config.seeds}: all seeds train in one "
            "process; leave one out"
        )
