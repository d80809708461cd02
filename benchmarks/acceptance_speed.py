"""The steps of gpu_acceptance.py that measure speed: engines, XLA's options, precision."""

from __future__ import annotations

import importlib.util
import os
from typing import Any

from acceptance_runs import Deadline, Failed, Sizes, Skipped, all_measured, timed

from jaxrl_hw.envs.robots import get_robot

ASKED = {"NVIDIA H200": {"mjx": 300_000, "warp": 1_000_000}}
"""Env steps per second that a training of `ASKED_OF` must reach, by card and engine. On other
cards the speed is told, not judged."""
ASKED_OF = "g1"
SUBSTEPS = 4
"""Steps of the physics in a control step, with every engine and robot."""


def engines(sizes: Sizes, deadline: Deadline) -> dict[str, Any]:
    """Env steps per second and memory of every engine that is installed, at each size."""
    asked = ASKED.get(sizes.device, {}) if sizes.robot == ASKED_OF else {}
    installed = {"warp": importlib.util.find_spec("warp") is not None}
    names = [name for name in sizes.engines if name in asked or installed.get(name, True)]
    timestep = str(get_robot(sizes.robot).control_dt / SUBSTEPS)
    found: dict[str, dict[int, dict[str, Any]]] = {name: {} for name in names}
    # the largest sizes first: where time runs out they have told the most
    for num_envs in reversed(sizes.num_envs):
        for name in names:
            given = ("--physics", name, "--timestep", timestep)
            row = timed(sizes, deadline, num_envs, *given)
            found[name][num_envs] = {"physics": name, **row}
    rows = {f"{name} {size:,}": found[name][size] for name in names for size in sizes.num_envs}
    best = {
        name: max(row.get("env_steps_per_s", 0) for row in found[name].values()) for name in names
    }
    shown = ", ".join(f"{name} {speed:,}" for name, speed in best.items())
    judged = ", ".join(f"{name} {least:,}" for name, least in asked.items()) or "nothing"
    figures = {
        "summary": f"env steps/s at best: {shown}; asked on this card: {judged}",
        "substeps": SUBSTEPS,
        "asked": asked,
        "rows": list(rows.values()),
    }
    all_measured(rows, figures)
    slow = [f"{n} {best[n]:,}, not {least:,}" for n, least in asked.items() if best[n] < least]
    if slow:
        raise Failed(f"too slow, in env steps/s: {'; '.join(slow)}", figures)
    return figures


COMMAND_BUFFERS = {
    "default": "",
    "none": "--xla_gpu_enable_command_buffer=",
    "with loops": "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL",
}
"""Settings of XLA that replay launches from a recording, by what is recorded."""


def flags(sizes: Sizes, deadline: Deadline) -> dict[str, Any]:
    """MJX with each setting of the command buffers."""
    if sizes.platform != "gpu":
        raise Skipped("command buffers are for GPUs")
    number = 4096 if 4096 in sizes.num_envs else sizes.num_envs[-1]
    rows = {}
    for name, flag in COMMAND_BUFFERS.items():
        given = " ".join(filter(None, (os.environ.get("XLA_FLAGS"), flag)))
        row = timed(sizes, deadline, number, "--physics", "mjx", environ={"XLA_FLAGS": given})
        rows[name] = {"setting": name, "flag": flag, **row}
    shown = [f"{name} {row.get('env_steps_per_s', 'failed')}" for name, row in rows.items()]
    figures = {"summary": ", ".join(shown), "rows": list(rows.values())}
    all_measured(rows, figures)
    return figures


def precision(sizes: Sizes, deadline: Deadline) -> dict[str, Any]:
    """Env steps per second and memory with networks in float32 and in bfloat16."""
    number = sizes.num_envs[len(sizes.num_envs) // 2]
    rows = {
        kind: timed(sizes, deadline, number, "--precision", kind)
        for kind in ("float32", "bfloat16")
    }
    all_measured(rows, rows)
    ratio = rows["bfloat16"]["env_steps_per_s"] / rows["float32"]["env_steps_per_s"]
    return {"summary": f"bfloat16 at {ratio:.2f} times the speed of float32", **rows}
