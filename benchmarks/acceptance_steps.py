"""The steps of gpu_acceptance.py that check what is promised: each runs real commands."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import interruptions
from acceptance_memory import driver_memory, hog, wait_for
from acceptance_runs import (
    Deadline,
    Failed,
    Sizes,
    Skipped,
    command,
    rate,
    run,
    said,
    started,
    trained,
)

from jaxrl_hw.hardware import nvidia
from jaxrl_hw.planning.benchmark import failure

Take = Callable[[int], AbstractContextManager[None]]


def doctor(sizes: Sizes, deadline: Deadline) -> dict[str, Any]:
    """Every row of the doctor's."""
    words = [sys.executable, "-m", "jaxrl_hw.doctor", "--json"]
    found = json.loads(run(words, deadline, codes=(0, 1)))  # 1: a check failed
    summary = ", ".join(f"{number} {status}" for status, number in found["counts"].items())
    figures = {"summary": summary, "rows": found["rows"]}
    bad = [f"{row['check']} {row['item']}" for row in found["rows"] if row["status"] == "fail"]
    if bad:
        raise Failed(f"failed: {', '.join(bad)}", figures)
    return figures


def sizing(sizes: Sizes, deadline: Deadline) -> dict[str, Any]:
    """A run of `--num-envs auto`: memory as expected, as JAX counts it, and as the driver does."""
    with tempfile.TemporaryDirectory() as place, driver_memory() as driver:
        flags = ["--num-envs", str(sizes.num_envs[-1])] if sizes.platform == "cpu" else []
        plan, metrics = trained(sizes, deadline, Path(place), *flags)
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
        "env_steps_per_s": rate(metrics),
    }
    if sizes.platform == "gpu" and not seen:
        raise Failed("the driver told no memory of the run", figures)
    if sizes.platform == "gpu" and abs(off) > 5.0:
        raise Failed(f"off by {off:+.1f} %, more than 5 %", figures)
    return figures


def oom(sizes: Sizes, deadline: Deadline, take: Take = hog) -> dict[str, Any]:
    """Another process takes the memory that the plan counted on, while the run still compiles.

    take: the context in which so many bytes are left.
    """
    if sizes.platform != "gpu" or nvidia.memory_in_use(os.environ) is None:
        raise Skipped("needs a GPU whose driver tells its memory")
    number = sizes.num_envs[-1]
    with tempfile.TemporaryDirectory() as place:
        words = command(sizes, Path(place), "--num-envs", str(number), "--save-every", "2")
        plan_file = Path(place) / "run" / "plan.json"
        with started(words) as process:
            wait_for(
                lambda: plan_file.exists() or process.poll() is not None,
                min(120.0, deadline.left()),
                "the plan",
            )
            if not plan_file.exists():
                raise Failed(failure(process.returncode, said(process, deadline)[1]))
            need = json.loads(plan_file.read_text())["predicted_bytes"]["total"]
            with take(round(0.6 * need)):
                said(process, deadline)
        rows = interruptions.rows(Path(place) / "run")
        sessions = (Path(place) / "run" / "sessions.jsonl").read_text().splitlines()
    last = json.loads(sessions[-1])
    figures = {"asked": number, "ended_with": last["num_envs"], "exit_code": process.returncode}
    if process.returncode != 0 or len(rows) < sizes.iterations:
        raise Failed(f"exit code {process.returncode} after {len(rows)} iterations", figures)
    if last["num_envs"] >= number:
        raise Failed("memory was not short: nothing was tried", figures)
    return {"summary": f"{number:,} environments became {last['num_envs']:,}", **figures}


_SAME_STATE = f"""
import json, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent)!r})
from interruptions import same_state
print(json.dumps(same_state(*map(Path, sys.argv[1:]))))
"""


def resume(sizes: Sizes, deadline: Deadline) -> dict[str, Any]:
    """Killed at random moments and continued, against an undisturbed run: the same bits."""
    rng, robot = random.Random(0), sizes.train_robot
    number = sizes.num_envs[0]
    base = [*interruptions.train(robot, number), "--deterministic", "--save-every", "2"]
    if sizes.platform != "cpu":
        base += ["--physics", "mjx"]
    with tempfile.TemporaryDirectory() as place:
        killed, whole = Path(place) / "killed", Path(place) / "whole"
        kills = [
            interruptions.kill_once(
                base, killed, min(rng.uniform(*sizes.kill_after), deadline.left())
            )
            for _ in range(sizes.kills)
        ]
        goal = str(interruptions.newest(killed) + 6)
        for folder in (killed, whole):
            run([*base, "--run-dir", str(folder), "--iterations", goal], deadline)
        same_metrics = interruptions.reproducible(killed) == interruptions.reproducible(whole)
        # in another process: JAX would hold a GPU's memory in this one, for all steps to come
        answer = run([sys.executable, "-c", _SAME_STATE, str(killed), str(whole)], deadline)
        same_state = json.loads(answer.splitlines()[-1])
    figures = {
        "summary": f"{len(kills)} kills, {goal} iterations, equal to the bit",
        "kills": kills,
        "same_metrics": same_metrics,
        "same_state": same_state,
    }
    if not (same_metrics and same_state):
        raise Failed("the continued run differs from the undisturbed one", figures)
    return figures


def training(sizes: Sizes, deadline: Deadline) -> dict[str, Any]:
    """The recommended command for a while, then `evaluate`."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        words = [*sizes.train, "--robot", sizes.train_robot, "--no-tensorboard"]
        words += ["--num-envs", "auto", "--time-limit", sizes.train_for, "--run-dir", str(folder)]
        run(words, deadline, codes=(0, 75))
        rows = interruptions.rows(folder)
        scored = [sys.executable, "-m", "jaxrl_hw.evaluate", "--run-dir", str(folder), "--json"]
        text = run(scored, deadline)
    mean, last = json.loads(text)["mean"], rows[-1]
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
