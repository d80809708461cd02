"""A training in a process of its own, timed from outside by the metrics that it writes."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
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


class Seen(NamedTuple):
    """What was there when somebody looked."""

    seconds: float  # since the process started
    rows: int  # of its metrics
    cpu_s: float  # of all its threads


class Followed(NamedTuple):
    """A process that has ended."""

    rows: list[dict[str, Any]]
    seen: list[Seen]  # in order; an entry where rows came
    peak_resident_bytes: int

    def first(self, holds: Callable[[dict[str, Any]], bool]) -> Seen | None:
        """When the first row that this holds of was seen."""
        number = next((n for n, row in enumerate(self.rows, start=1) if holds(row)), None)
        return None if number is None else next(one for one in self.seen if one.rows >= number)


def followed(
    command: list[str],
    metrics: Path,
    place: Path,
    is_enough: Callable[[list[dict[str, Any]], float], bool],
    pause: float = 0.5,
) -> Followed:
    """Run a command, and read its metrics as it writes them.

    Args:
      place: an empty folder, for its compilation cache and what it says.
      is_enough: (new rows, seconds since its start) -> whether to end it.
      pause: s between two looks at its metrics.

    Raises:
      RunError: it failed.
    """
    environ = {**os.environ, "JAXRL_HW_CACHE": str(place / "cache")}
    root = str(HERE.parent)
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    seen: list[Seen] = []
    ended, tail = False, Tail(metrics)
    with (place / "stderr").open("w") as err:
        began = time.monotonic()
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=err, cwd=HERE, env=environ
        )
        while True:
            cpu = _cpu_s(process.pid)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            now, rows = time.monotonic() - began, tail.new()
            if rows:
                cpu = usage.ru_utime + usage.ru_stime if pid else cpu
                seen.append(Seen(now, len(tail.rows), cpu))
            enough = is_enough(rows, now)
            if pid:
                break
            if enough and not ended:
                process.terminate()
                ended = True
            time.sleep(0.02 if not seen else pause)
    process.returncode = os.waitstatus_to_exitcode(status)
    if not ended and (process.returncode or not seen):
        text = (place / "stderr").read_text(errors="replace")
        raise RunError(f"{command[1:3]}: {failure(process.returncode, text)}")
    return Followed(tail.rows, seen, 1024 * usage.ru_maxrss)


def _cpu_s(pid: int) -> float:
    """CPU time of a child and its threads so far; NaN where there is no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return float("nan")
    user, system = text.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def watched(
    command: list[str], metrics: Path, place: Path, to_error: float, limit: float
) -> Timing:
    """Run a command until its error is `to_error`, or for `limit` s; without one to its end.

    Raises:
      RunError: it failed.
    """

    def is_met(row: dict[str, Any]) -> bool:
        return bool(to_error) and _error(row) <= to_error

    def is_enough(rows: list[dict[str, Any]], seconds: float) -> bool:
        return bool(to_error) and (any(map(is_met, rows)) or seconds > limit)

    done = followed(command, metrics, place, is_enough)
    rates = [row["env_steps_per_s"] for row in done.rows[COMPILING:]]
    met = done.first(is_met)
    return Timing(
        statistics.median(rates) if rates else None,
        done.seen[0].seconds if done.seen else 0.0,
        done.peak_resident_bytes,
        None if met is None else met.seconds,
    )


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
