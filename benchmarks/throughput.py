"""How fast training is on this machine, beside what its physics alone can do.

    python benchmarks/throughput.py [--cases g1,g1_12dof] [--num-envs 512] [--iterations 12]

Each training is the real command in its own process, so that start-up times and memory peaks are
those a user gets. The physics alone (MuJoCo's thread pool, lively actions) is timed right before
and right after it: machines of many tenants change speed, so compare the ratio. The pool steps the
training's own model with its flags, its number of environments and its masses, frictions and gains
per environment. Writes benchmarks/results/throughput-<platform>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from jaxrl_hw import Config, get_robot, load_run
from jaxrl_hw.config.factory import load_task

CASES: dict[str, list[str]] = {
    # 10 physics steps of 2 ms per control step, 4 epochs
    "g1": ["--robot", "g1", "--timestep", "0.002", "--ppo.epochs", "4"]
    + ["--net.policy", "512", "256", "128", "--net.value", "512", "256", "128"],
    # 4 physics steps of 5 ms, 5 epochs
    "g1_12dof": ["--robot", "g1_12dof", "--timestep", "0.005", "--ppo.epochs", "5"]
    + ["--net.policy", "256", "128", "--net.value", "256", "128"],
}
RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description="Training throughput beside physics alone.")
    parser.add_argument("--cases", default="g1,g1_12dof")
    parser.add_argument("--num-envs", type=int, default=512)
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse_args()
    rows = [measure(name, args.num_envs, args.iterations) for name in args.cases.split(",")]
    from jaxrl_hw.hardware.detect import detect

    hardware = detect()
    out = args.out or RESULTS / f"throughput-{hardware.platform}.json"
    record = {
        "hardware": f"{hardware.name}, {hardware.cores} cores",
        "command": f"python benchmarks/throughput.py {' '.join(sys.argv[1:])}".strip(),
        "rows": rows,
    }
    out.write_text(json.dumps(record, indent=2) + "\n")
    show(rows)
    print(f"written to {out}")


def measure(name: str, num_envs: int, iterations: int) -> dict[str, Any]:
    """One case: a cold start, a longer second start, and the physics alone before and after it."""
    with tempfile.TemporaryDirectory() as folder:
        cold = train(name, num_envs, 2, Path(folder), "cold")
        before = pool_rate(cold["config"])
        warm = train(name, num_envs, iterations, Path(folder), "second")
        after = pool_rate(cold["config"])
    pool = statistics.mean([before, after])
    return {
        "case": name,
        "num_envs": num_envs,
        "train_env_steps_per_s": round(warm["rate"]),
        "pool_env_steps_per_s": round(pool),
        "share_of_pool": round(warm["rate"] / pool, 3),
        "first_iteration_cold_s": round(cold["first_s"], 1),
        "first_iteration_second_s": round(warm["first_s"], 1),
        "peak_resident_bytes": warm["peak"],
        "predicted_bytes": warm["predicted"],
    }


def train(name: str, num_envs: int, iterations: int, folder: Path, label: str) -> dict[str, Any]:
    """Run the command; seconds to the first finished iteration, median rate, peak memory."""
    run = folder / f"{name}-{label}"
    command = [sys.executable, "-m", "jaxrl_hw.train", *CASES[name], "--physics", "native"]
    command += ["--num-envs", str(num_envs), "--iterations", str(iterations)]
    command += ["--run-dir", str(run), "--no-tensorboard"]
    began = time.monotonic()
    with subprocess.Popen(
        command,
        env={**os.environ, "JAXRL_HW_CACHE": str(folder / "cache")},
        stdout=subprocess.DEVNULL,
    ) as process:
        metrics, first = run / "metrics.jsonl", 0.0
        while process.poll() is None:
            if not first and metrics.exists() and metrics.stat().st_size:
                first = time.monotonic() - began
            time.sleep(0.02)
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}")
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rates = [row["env_steps_per_s"] for row in rows[1:] or rows]
    predicted = json.loads((run / "plan.json").read_text())["predicted_bytes"]["total"]
    return {
        "rate": statistics.median(rates),
        "first_s": first,
        "peak": rows[-1]["memory_bytes"],
        "predicted": predicted,
        "config": load_run(run).config,
    }


def pool_rate(config: Config, seconds: float = 6.0) -> float:
    """Control steps per second of MuJoCo's thread pool alone, fallen robots put back.

    config: of the training, num_envs a number; its model, flags and randomized fields are stepped.
    """
    from mujoco import batch

    robot, num_envs = get_robot(config.robot), int(config.num_envs)
    task, model = load_task(config)
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_ISLAND)  # as the engine does
    pool = batch.Batch(model, num_envs, 0)
    home = model.key("home")
    pool.reset(keyframe=np.full(num_envs, home.id))
    start, angles = pool.state.copy(), np.array(home.qpos[7:])
    pool.bind("sensordata")
    for field in task.fields:
        pool.expand(field)
    rng = np.random.default_rng(0)
    substeps = round(robot.control_dt / model.opt.timestep)
    steps, began = 0, time.monotonic()
    while steps < 5 or time.monotonic() - began < seconds:
        if steps == 5:  # past the standing start
            began = time.monotonic()
        pool.ctrl[:] = angles + 0.12 * rng.standard_normal((num_envs, model.nu))
        pool.step(nstep=substeps)
        fallen = ~(pool.qpos[:, 2] > robot.fall_height)
        pool.state[fallen] = start[fallen]
        steps += 1
    return (steps - 5) * num_envs / (time.monotonic() - began)


def show(rows: list[dict[str, Any]]) -> None:
    print(
        f"{'case':10} {'train':>8} {'pool':>8} {'share':>6} {'cold':>7} {'second':>7} {'peak':>8}"
    )
    for r in rows:
        print(
            f"{r['case']:10} {r['train_env_steps_per_s']:8,} {r['pool_env_steps_per_s']:8,} "
            f"{r['share_of_pool']:6.0%} {r['first_iteration_cold_s']:6.1f}s "
            f"{r['first_iteration_second_s']:6.1f}s {r['peak_resident_bytes'] / 1e6:6.0f}MB"
        )


if __name__ == "__main__":
    main()
