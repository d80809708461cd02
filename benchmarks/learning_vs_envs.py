"""How much experience a walking policy takes at each number of environments.

    python benchmarks/learning_vs_envs.py [--num-envs 64,256,1024,4096,8192] [--timesteps 5M]
        [--robot g1_12dof] [--seeds 0] [--rates T4=40000,A100=150000] [--add]

Each run is the real command with the native engine, one after the other. Its checkpoints are then
measured as `python -m jaxrl_hw.evaluate` does. A policy is good when none of its ten robots falls
and the mean velocity error is at most --error. The figures are the env steps, gradient steps and
wall time until then. --rates adds the wall time on other devices, calculated from the env steps per
second that are given. Writes learning-vs-envs-<robot>.json and .png to benchmarks/results.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from learning_runs import curve, first_good, kept, train

from jaxrl_hw import load_run
from jaxrl_hw.config.resolve import algorithm_needs
from jaxrl_hw.config.units import parse_count

RESULTS = Path(__file__).parent / "results"
CHECKS = 8
"""Checkpoints measured per run."""


def main() -> None:
    args = _parse()
    sizes = [int(size) for size in args.num_envs.split(",")]
    seeds = [int(seed) for seed in args.seeds.split(",")]
    rates = dict(pair.split("=") for pair in args.rates.split(",") if pair)
    out = RESULTS / f"learning-vs-envs-{args.robot}.json"
    before = kept(out, {"good": good(args)}) if args.add else {"rows": []}
    fresh = {(num_envs, seed) for num_envs in sizes for seed in seeds}
    rows = [row for row in before["rows"] if (row["num_envs"], row["seed"]) not in fresh]
    for seed in seeds:
        for num_envs in sizes:
            with tempfile.TemporaryDirectory() as folder:
                row = measure(args, num_envs, seed, Path(folder) / "run")
            row["calculated_minutes"] = {
                name: minutes(row["steps_to_good"], float(rate)) for name, rate in rates.items()
            }
            rows.append(row)
            show(row)
            keep(out, args, rows, before.get("command"))
    draw(out.with_suffix(".png"), args, rows)
    print(f"written to {out} and {out.with_suffix('.png').name}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--robot", default="g1_12dof")
    parser.add_argument("--num-envs", default="64,256,1024,4096,8192")
    parser.add_argument("--timesteps", default="5M", help="of each run")
    parser.add_argument("--seeds", default="0")
    parser.add_argument("--error", type=float, default=0.15, help="m/s, of a good policy")
    parser.add_argument("--rates", default="", help="NAME=env steps per second, comma-separated")
    parser.add_argument("--add", action="store_true", help="keep the other runs of the file")
    return parser.parse_args()


def measure(args: argparse.Namespace, num_envs: int, seed: int, folder: Path) -> dict[str, Any]:
    """Train one size in a process of its own, then measure its checkpoints in another."""
    flags = ["--robot", args.robot, "--seed", str(seed), "--num-envs", str(num_envs)]
    train(
        [*flags, "--physics", "native"], folder, parse_count(args.timesteps, "--timesteps"), CHECKS
    )
    needs, points = algorithm_needs(load_run(folder).config), curve(folder)
    first, samples = first_good(points, args.error), num_envs * needs.unroll
    per_iteration = needs.epochs * needs.minibatches(samples)
    return {
        "num_envs": num_envs,
        "seed": seed,
        "unroll": needs.unroll,
        "samples": samples,
        "minibatches": needs.minibatches(samples),
        "steps_to_good": first.get("env_steps"),
        "gradient_steps_to_good": (first and first["iteration"] * per_iteration) or None,
        "minutes_to_good": (first and first["wall_s"] / 60) or None,
        "env_steps_per_s": points[-1]["env_steps"] / points[-1]["wall_s"],
        "end": points[-1],
        "curve": points,
    }


def minutes(steps: int | None, rate: float) -> float | None:
    """Wall time of so many env steps at so many per second."""
    return None if steps is None else steps / rate / 60


def show(row: dict[str, Any]) -> None:
    end, good = row["end"], "not reached"
    if row["steps_to_good"]:
        good = f"{row['steps_to_good'] / 1e6:.1f}M steps, {row['minutes_to_good']:.1f} min"
    print(
        f"{row['num_envs']:6,} envs x {row['unroll']:2d} steps: {good:24s} at the end "
        f"{end['velocity_error']:.3f} m/s, {end['yaw_error']:.3f} rad/s, {end['falls']} of 10 "
        f"fall, {end['self_contacts']:.1f} self contacts; {row['env_steps_per_s']:,.0f} steps/s",
        flush=True,
    )


def good(args: argparse.Namespace) -> dict[str, float]:
    """What a policy must reach."""
    return {"velocity_error": args.error, "falls": 0}


def keep(
    out: Path, args: argparse.Namespace, rows: list[dict[str, Any]], before: str | None
) -> None:
    """Write what is known so far, and the command that wrote it, after the one before."""
    command = f"python benchmarks/learning_vs_envs.py {' '.join(sys.argv[1:])}".strip()
    rows = sorted(rows, key=lambda row: (row["num_envs"], row["seed"]))
    record = {
        "command": f"{before}, then {command}" if before else command,
        "robot": args.robot,
        "cores": len(os.sched_getaffinity(0)),
        "good": good(args),
        "rows": rows,
    }
    out.write_text(json.dumps(record, indent=1) + "\n")


def draw(path: Path, args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    """Velocity error over env steps, a line per run, a colour per number of environments; a ring
    where robots fell."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    colours = plt.get_cmap("viridis")
    sizes = sorted({row["num_envs"] for row in rows})
    named: set[int] = set()
    for row in rows:
        steps = [point["env_steps"] / 1e6 for point in row["curve"]]
        errors = [point["velocity_error"] for point in row["curve"]]
        colour = colours(sizes.index(row["num_envs"]) / max(1, len(sizes) - 1))
        new = row["num_envs"] not in named
        named.add(row["num_envs"])
        label = f"{row['num_envs']:,} environments x {row['unroll']} steps" if new else None
        axes.plot(steps, errors, "o-", color=colour, label=label)
        fell = [(s, e) for s, e, p in zip(steps, errors, row["curve"], strict=True) if p["falls"]]
        axes.plot(*zip(*fell, strict=True), "o", mfc="none", ms=12, color=colour) if fell else None
    axes.axhline(args.error, color="grey", linestyle="--", linewidth=1)
    axes.set(xlabel="env steps, millions", ylabel="velocity error, m/s", yscale="log")
    axes.set_title(f"{args.robot}: learning by number of environments (rings: robots fell)")
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
