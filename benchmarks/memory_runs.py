"""One training in a process of its own: what it was expected to use, and what it used."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.resolve import sized
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.planning import memory_model
from jaxrl_hw.planning.benchmark import train

Row = dict[str, Any]

WARMING_UP = 2
"""Iterations at the start that do not count."""
CACHE = "JAXRL_HW_CACHE"


@contextmanager
def caching_in(folder: Path | None) -> Iterator[None]:
    """Keep figures and compiled programs there, here and in the processes that are started.

    None: in a new folder that is removed afterwards, as on the machine of a new user.
    """
    names = (CACHE, "JAX_COMPILATION_CACHE_DIR")
    before = {name: os.environ.pop(name, None) for name in names}
    with tempfile.TemporaryDirectory() as fresh:
        os.environ[CACHE] = str(folder or fresh)
        try:
            yield
        finally:
            del os.environ[CACHE]
            os.environ.update({name: value for name, value in before.items() if value is not None})


def measure(robot: str, physics: str, num_envs: int, iterations: int, hardware: Hardware) -> Row:
    """One row of the table.

    It holds both expectations that a user gets: when the run is planned, from sizes alone where
    the program has never been compiled here (`planned_from`), and once it has been compiled for
    this number of environments and the process has been measured (`predicted_from`).
    """
    config = sized(replace(preset_config(robot), physics=physics, num_envs=num_envs), num_envs)
    before = memory_model.footprint(config, hardware)
    row: Row = {
        "robot": robot,
        "physics": physics,
        "num_envs": num_envs,
        "planned_bytes": before.total.total(num_envs),
        "planned_from": before.source,
    }
    flags = ["--robot", robot, "--physics", physics]
    flags += ["--num-envs", str(num_envs), "--iterations", str(iterations)]
    done = train(flags)
    if done.reason:
        return {**row, "failed": done.reason}
    counted = done.metrics[WARMING_UP:]
    per_minute = statistics.median(line["iterations_per_min"] for line in counted)
    predicted, used = done.plan["predicted_bytes"], done.plan["measured_bytes"]
    return {
        **row,
        "iterations_per_min": round(per_minute, 3),
        "env_steps_per_s": round(statistics.median(x["env_steps_per_s"] for x in counted)),
        "minutes_per_1000_iterations": round(1000 / per_minute, 2),
        "predicted_bytes": predicted,
        "predicted_from": done.plan["predicted_from"],
        "predicted_compile_bytes": done.plan["predicted_compile_bytes"],
        "measured_bytes": used["peak"],
        "measured_by": used["source"],
        "error_percent": off_by(predicted["total"], used["peak"]),
        "compile_peak_bytes": used["compile_peak"],
    }


def off_by(predicted: float, measured: float | None) -> float | None:
    """Percent of what was measured; above 0 where more was predicted. None where none was."""
    return round(100 * (predicted / measured - 1), 2) if measured and measured > 0 else None


def growth(rows: Sequence[Row]) -> dict[str, Any] | None:
    """How memory grows from the smallest to the largest number: predicted and measured.

    None where fewer than two rows have figures.
    """
    known = sorted((row for row in rows if row.get("measured_bytes")), key=lambda r: r["num_envs"])
    if len(known) < 2:
        return None
    low, high = known[0], known[-1]
    predicted = high["predicted_bytes"]["total"] - low["predicted_bytes"]["total"]
    measured = high["measured_bytes"] - low["measured_bytes"]
    return {
        "from_num_envs": low["num_envs"],
        "to_num_envs": high["num_envs"],
        "predicted_bytes": predicted,
        "measured_bytes": measured,
        "error_percent": off_by(predicted, measured),
    }
