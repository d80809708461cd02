"""A training in a process of its own, timed from outside by the metrics that it writes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.errors import RunError
from jaxrl_hw.planning.benchmark import failure

HERE = Path(__file__).resolve().parent
COMPILING = 2
"""Iterations whose speed does not count: on jax 0.10 brax compiles its training in the first and,
for the placement of its results, again in the second."""


class Timing(NamedTuple):
    """One run."""

    env_steps_per_s: float | None  # median of the iterations after `COMPILING`
    first_iteration_s: float  # from the start of the process to the first line of its metrics
    peak_resident_bytes: int
    to_error_s: float | None  # likewise to the first line with the error; None where it was not met


def watched(
    command: list[str], metrics: Path, place: Path, to_error: float, limit: float
) -> Timing:
    """Run a command, and read its metrics as it writes them.

    Raises:
      RunError: it failed.
    """
    environ = {**os.environ, "JAXRL_HW_CACHE": str(place / "cache")}
    root = str(HERE.parent)
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    first, met, ended, tail = 0.0, None, False, Tail(metrics)
    with (place / "stderr").open("w") as err:
        began = time.monotonic()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=err, cwd=HERE, env=environ
        )
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            now = time.monotonic() - began
            rows = tail.new()
            first = first or (now if rows else 0.0)
            if to_error and met is None and any(_error(row) <= to_error for row in rows):
                met = now
            if pid:
                break
            if to_error and not ended and (met is not None or now > limit):
                process.terminate()
                ended = True
            time.sleep(0.02 if not first else 0.5)
    process.returncode = os.waitstatus_to_exitcode(status)
    if not ended and (process.returncode or not first):
        text = (place / "stderr").read_text(errors="replace")
        raise RunError(f"{command[1:3]}: {failure(process.returncode, text)}")
    rates = [row["env_steps_per_s"] for row in tail.rows[COMPILING:]]
    return Timing(statistics.median(rates) if rates else None, first, 1024 * usage.ru_maxrss, met)


class Tail:
    """The rows of a metrics file that somebody may be writing, read as they come."""

    def __init__(self, metrics: Path) -> None:
        self._metrics, self._read = metrics, 0
        self.rows: list[dict[str, Any]] = []

    def new(self) -> list[dict[str, Any]]:
        """The whole lines that are there since the last call."""
        if not self._metrics.exists():
            return []
        with self._metrics.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        data = data[: data.rfind(b"\n") + 1]
        self._read += len(data)
        rows = [json.loads(line) for line in data.splitlines()]
        self.rows += rows
        return rows


def _error(row: dict[str, Any]) -> float:
    found = row.get("tracking/velocity_error")
    return float("inf") if found is None else float(found)
