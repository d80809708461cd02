"""The steps of gpu_acceptance.py: each runs real commands and returns its figures."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import interruptions
from acceptance_memory import driver_memory, hog, wait_for

from jaxrl_hw.hardware import nvidia
from jaxrl_hw.planning.benchmark import failure

LIMIT_S = 460.0
"""Of a step: a command that would pass it is ended, and the step fails."""


class Sizes(NamedTuple):
    """How much the steps do."""

    robot: str
    platform: str  # cpu, gpu or tpu
    num_envs: tuple[int, ...]
    iterations: int  # of each run that is timed
    kills: int
    kill_after: tuple[float, float]  # s, at random in this range
    train_robot: str
    train_for: str  # a duration, as --time-limit takes it
    beside: tuple[str, ...]  # flags of versus_brax.py


FULL = Sizes(
    *("g1", "gpu", (512, 2048, 4096, 8192, 16384), 8, 3, (30.0, 90.0), "g1_12dof", "5m"),
    beside=("--num-envs", "4096", "--minibatches", "16"),
)
TINY = Sizes(
    *("cartpole", "cpu", (16, 32), 4, 1, (8.0, 14.0), "cartpole", "40s"),
    beside=("--num-envs", "8", "--minibatches", "2", "--unroll", "4", "--net", "32", "32"),
)


class Failed(Exception):
    """What was expected did not happen; `figures` are those found until then."""

    def __init__(self, why: str, figures: dict[str, Any] | None = None) -> None:
        super().__init__(why)
        self.figures = figures or {}


class Skipped(Exception):
    """The step does not apply to this machine; says why."""


def doctor(sizes: Sizes) -> dict[str, Any]:
    """Every row of the doctor's."""
    command = [sys.executable, "-m", "jaxrl_hw.doctor", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if not done.stdout:
        raise Failed(failure(done.returncode, done.stderr))
    found = json.loads(done.stdout)
    summary = ", ".join(f"{number} {status}" for status, number in found["counts"].items())
    figures = {"summary": summary, "rows": found["rows"]}
    bad = [f"{row['check']} {row['item']}" for row in found["rows"] if row["status"] == "fail"]
    if bad:
        raise Failed(f"failed: {', '.join(bad)}", figures)
    return figures


def sizing(sizes: Sizes) -> dict[str, Any]:
    """A run of `--num-envs auto`: memory as expected, as JAX counts it, and as the driver does."""
    with tempfile.TemporaryDirectory() as place, driver_memory() as driver:
        flags = ["--num-envs", str(sizes.num_envs[-1])] if sizes.platform == "cpu" else []
        plan, metrics = _train(sizes.robot, Path(place), sizes.iterations, *flags)
    predicted, measured = plan["predicted_bytes"]["total"], plan["measured_bytes"]["peak"]
    seen = driver[-1] - driver[0] if driver else None
    against = seen or measured
    off = 100.0 * (predicted / against - 1.0)
    figures = {
        "summary": f"{plan['num_envs']:,} environments: {predicted / 1e9:.2f} GB, {off:+.1f} %",
        "num_envs": plan["num_envs"],
        "predicted_bytes": plan["predicted_bytes"],
        "measured_bytes": plan["measured_bytes"],
        "driver_bytes": seen,
        "off_percent": off,
        "env_steps_per_s": _rate(metrics),
    }
    if sizes.platform == "gpu" and abs(off) > 5.0:
        raise Failed(f"off by {off:+.1f} %, more than 5 %", figures)
    return figures


def engines(sizes: Sizes) -> dict[str, Any]:
    """Env steps per second and memory of every engine that is installed, at each size."""
    names = ["mjx"] if importlib.util.find_spec("warp") is None else ["warp", "mjx"]
    rows: list[dict[str, Any]] = []
    deadline = time.monotonic() + LIMIT_S
    for num_envs in sizes.num_envs:
        for name in names:
            if time.monotonic() < deadline:
                rows.append(_timed(sizes, num_envs, "--physics", name) | {"physics": name})
    good = [row for row in rows if "failed" not in row]
    best = max(good, key=lambda row: row["env_steps_per_s"], default=None)
    figures: dict[str, Any] = {"rows": rows, "planned": len(names) * len(sizes.num_envs)}
    if best is None:
        raise Failed("no size ran", figures)
    figures["summary"] = (
        f"at best {best['env_steps_per_s']:,} env steps/s ({best['physics']}, "
        f"{best['num_envs']:,} environments); {len(good)} of {figures['planned']} measured"
    )
    return figures


COMMAND_BUFFERS = {
    "default": "",
    "none": "--xla_gpu_enable_command_buffer=",
    "with loops": "--xla_gpu_enable_command_buffer=+WHILE,+CONDITIONAL",
}
"""Settings of XLA that replay launches from a recording, by what is recorded."""


def flags(sizes: Sizes) -> dict[str, Any]:
    """MJX with each setting of the command buffers."""
    if sizes.platform != "gpu":
        raise Skipped("command buffers are for GPUs")
    number = 4096 if 4096 in sizes.num_envs else sizes.num_envs[-1]
    rows = []
    for name, flag in COMMAND_BUFFERS.items():
        given = " ".join(filter(None, (os.environ.get("XLA_FLAGS"), flag)))
        row = _timed(sizes, number, "--physics", "mjx", environ={"XLA_FLAGS": given})
        rows.append({"setting": name, "flag": flag, **row})
    shown = [f"{row['setting']} {row.get('env_steps_per_s', 'failed')}" for row in rows]
    return {"summary": ", ".join(shown), "rows": rows}


def oom(sizes: Sizes) -> dict[str, Any]:
    """Another process takes the memory that the plan counted on, while the run still compiles."""
    if sizes.platform != "gpu" or nvidia.memory_in_use(os.environ) is None:
        raise Skipped("needs a GPU whose driver tells its memory")
    number = sizes.num_envs[-1]
    with tempfile.TemporaryDirectory() as place:
        command = _command(sizes.robot, Path(place), sizes.iterations, "--num-envs", str(number))
        run = subprocess.Popen([*command, "--save-every", "2"], stdout=subprocess.DEVNULL)
        plan_file = Path(place) / "run" / "plan.json"
        try:
            wait_for(plan_file.exists, 120.0, "the plan")
            need = json.loads(plan_file.read_text())["predicted_bytes"]["total"]
            with hog(round(0.6 * need)):
                run.wait(LIMIT_S)
        finally:
            run.kill()
        rows = interruptions.rows(Path(place) / "run")
        sessions = (Path(place) / "run" / "sessions.jsonl").read_text().splitlines()
    last = json.loads(sessions[-1])
    figures = {"asked": number, "ended_with": last["num_envs"], "exit_code": run.returncode}
    if run.returncode != 0 or len(rows) < sizes.iterations:
        raise Failed(f"exit code {run.returncode} after {len(rows)} iterations", figures)
    if last["num_envs"] >= number:
        raise Failed("memory was not short: nothing was tried", figures)
    return {"summary": f"{number:,} environments became {last['num_envs']:,}", **figures}


def resume(sizes: Sizes) -> dict[str, Any]:
    """Killed at random moments and continued, against an undisturbed run: the same bits."""
    rng, robot = random.Random(0), sizes.train_robot
    number = sizes.num_envs[0]
    base = [*interruptions.train(robot, number), "--deterministic", "--save-every", "2"]
    if sizes.platform != "cpu":
        base += ["--physics", "mjx"]
    with tempfile.TemporaryDirectory() as place:
        killed, whole = Path(place) / "killed", Path(place) / "whole"
        kills = [
            interruptions.kill_once(base, killed, rng.uniform(*sizes.kill_after))
            for _ in range(sizes.kills)
        ]
        goal = str(interruptions.newest(killed) + 6)
        for folder in (killed, whole):
            command = [*base, "--run-dir", str(folder), "--iterations", goal]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S / 2)
        same_metrics = interruptions.reproducible(killed) == interruptions.reproducible(whole)
        same_state = interruptions.same_state(killed, whole)
    figures = {
        "summary": f"{len(kills)} kills, {goal} iterations, equal to the bit",
        "kills": kills,
        "same_metrics": same_metrics,
        "same_state": same_state,
    }
    if not (same_metrics and same_state):
        raise Failed("the continued run differs from the undisturbed one", figures)
    return figures


def precision(sizes: Sizes) -> dict[str, Any]:
    """Env steps per second and memory with networks in float32 and in bfloat16."""
    number = sizes.num_envs[len(sizes.num_envs) // 2]
    rows = {kind: _timed(sizes, number, "--precision", kind) for kind in ("float32", "bfloat16")}
    broken = [f"{kind}: {row['failed']}" for kind, row in rows.items() if "failed" in row]
    if broken:
        raise Failed("; ".join(broken), rows)
    ratio = rows["bfloat16"]["env_steps_per_s"] / rows["float32"]["env_steps_per_s"]
    return {"summary": f"bfloat16 at {ratio:.2f} times the speed of float32", **rows}


def training(sizes: Sizes) -> dict[str, Any]:
    """The recommended command for a while, then `evaluate`."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        command = [sys.executable, "-m", "jaxrl_hw.train", "--robot", sizes.train_robot]
        command += ["--num-envs", "auto", "--time-limit", sizes.train_for, "--run-dir", str(folder)]
        command += ["--no-tensorboard"]
        done = subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=LIMIT_S
        )
        if done.returncode not in (0, 75):
            raise Failed(failure(done.returncode, done.stderr))
        rows = interruptions.rows(folder)
        scored = [sys.executable, "-m", "jaxrl_hw.evaluate", "--run-dir", str(folder), "--json"]
        text = subprocess.run(scored, check=True, capture_output=True, text=True, timeout=LIMIT_S)
    mean, last = json.loads(text.stdout)["mean"], rows[-1]
    shown = ", ".join(f"{name} {value:.3g}" for name, value in mean.items())
    return {
        "summary": f"{last['env_steps']:,} env steps in {last['wall_s']:.0f} s: {shown}",
        "mean": mean,
        "env_steps": last["env_steps"],
        "seconds": last["wall_s"],
        "curve": [
            {name: row.get(name) for name in ("env_steps", "wall_s", "episode_return")}
            for row in rows[:: max(1, len(rows) // 50)]
        ],
    }


def _command(robot: str, place: Path, iterations: int, *flags: str) -> list[str]:
    base = [sys.executable, "-m", "jaxrl_hw.train", "--robot", robot, "--no-tensorboard"]
    base += ["--iterations", str(iterations), "--run-dir", str(place / "run")]
    return [*base, *flags]


def _train(
    robot: str, place: Path, iterations: int, *flags: str, environ: dict[str, str] | None = None
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A short run's plan.json with its number of environments, and its metrics."""
    done = subprocess.run(
        _command(robot, place, iterations, *flags),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, **(environ or {})},
    )
    if done.returncode:
        raise Failed(failure(done.returncode, done.stderr))
    plan = json.loads((place / "run" / "plan.json").read_text())
    config = json.loads((place / "run" / "config.json").read_text())["config"]
    return {**plan, "num_envs": config["num_envs"]}, interruptions.rows(place / "run")


def _timed(sizes: Sizes, num_envs: int, *flags: str, environ: Any = None) -> dict[str, Any]:
    """Speed and memory of a short run, or why it failed."""
    given = ("--num-envs", str(num_envs), "--on-oom", "fail", *flags)
    with tempfile.TemporaryDirectory() as place:
        try:
            plan, metrics = _train(
                sizes.robot, Path(place), sizes.iterations, *given, environ=environ
            )
        except (Failed, subprocess.TimeoutExpired) as error:
            return {"num_envs": num_envs, "failed": str(error)}
    return {
        "num_envs": num_envs,
        "env_steps_per_s": _rate(metrics),
        "predicted_bytes": plan["predicted_bytes"]["total"],
        "measured_bytes": plan["measured_bytes"]["peak"],
    }


def _rate(metrics: list[dict[str, Any]]) -> int:
    """Median env steps per second after the first two iterations, which warm up."""
    return round(statistics.median(row["env_steps_per_s"] for row in metrics[2:]))
