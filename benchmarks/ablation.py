"""What each part of the recipe is worth: one thing changed at a time, several seeds.

    python benchmarks/ablation.py [--variants recipe,no_symmetry,...] [--timesteps 3M]
        [--robot g1_12dof] [--num-envs 256] [--seeds 0,1,2] [--error 0.15] [--add] [--out FILE]

Every run is the real command on one core, for equally many env steps. Its checkpoints are then
measured as `python -m jaxrl_hw.evaluate` does. A policy is good when none of its ten robots falls
and its velocity error is at most --error. The figures are the env steps and the minutes of training
until then, and what the run ends with. Writes benchmarks/results/ablation-<robot>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from learning_runs import curve, first_good, kept, train

from jaxrl_hw import get_robot
from jaxrl_hw.config.units import parse_count
from jaxrl_hw.errors import UserError

RESULTS = Path(__file__).parent / "results"
CHECKS = 8
"""Checkpoints measured per run."""
ONE_CORE = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}


class Variant(NamedTuple):
    """What differs from the recipe."""

    what: str
    flags: list[str]


def _without(*terms: str) -> list[str]:
    """Flags that leave out reward terms of the joystick task."""
    return [word for term in terms for word in (f"--joystick.reward.{term}", "0")]


VARIANTS = {
    "recipe": Variant("as it is", []),
    "no_symmetry": Variant("networks that need not be symmetric", ["--ppo.symmetry", "none"]),
    "mirror_loss": Variant("a mirror loss, not symmetric networks", ["--ppo.symmetry", "loss"]),
    "no_memory": Variant("no memory", ["--net.memory", "none"]),
    "no_estimation": Variant("no state estimation", ["--ppo.estimation-coef", "0"]),
    "no_foresight": Variant("a critic without foresight", ["--joystick.no-foresight"]),
    "no_motion_prior": Variant("from a random policy", ["--ppo.no-motion-prior"]),
    "no_gait": Variant("no gait reward", _without("foot-height", "foot-contact")),
    "no_shaping": Variant(
        "no reward for how the body moves",
        _without("vertical-velocity", "roll-pitch-rate", "tilt", "base-height", "slip"),
    ),
    "no_posture": Variant("no reward for staying near home", _without("posture", "stand-still")),
    "gamma_099": Variant("gamma 0.99", ["--ppo.gamma", "0.99"]),
    "fixed_rate": Variant("learning rate fixed at 1e-3", ["--ppo.lr-schedule", "fixed"]),
    "minibatch_1024": Variant("minibatches of 1,024", ["--ppo.minibatch-size", "1024"]),
    "epochs_2": Variant("each sample used twice", ["--ppo.epochs", "2"]),
    "small_critic": Variant("a critic of half the width", ["--net.value", "128", "64"]),
    "wide_critic": Variant("a critic of twice the width", ["--net.value", "512", "256"]),
}


def main(words: list[str] | None = None) -> None:
    args = _parse(words)
    out = args.out or RESULTS / f"ablation-{args.robot}.json"
    before = kept(out, settings_of(args)) if args.add else {"rows": []}
    jobs = [(name, seed) for seed in args.seeds for name in args.variants]
    rows = [row for row in before["rows"] if (row["name"], row["seed"]) not in jobs]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.side_by_side) as pool:
        folders = [Path(folder) / f"{name}-{seed}" for name, seed in jobs]
        for row in pool.map(measure, jobs, [args] * len(jobs), folders):
            rows.append(row)
            show(row)
            keep(out, args, rows, before.get("command"))
    print(table(rows))
    print(f"written to {out}")


def _parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", type=_variants, default=list(VARIANTS))
    parser.add_argument("--robot", type=_robot, default="g1_12dof", help="a legged one")
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--timesteps", type=_count, default=3_000_000, help="of each run")
    parser.add_argument("--seeds", type=_seeds, default=[0, 1, 2])
    parser.add_argument("--error", type=float, default=0.15, help="m/s, of a good policy")
    parser.add_argument("--side-by-side", type=int, default=os.cpu_count() or 1, metavar="RUNS")
    parser.add_argument("--add", action="store_true", help="keep the other runs of the file")
    parser.add_argument("--out", type=Path, default=None)
    return parser.parse_args(words)


def _variants(text: str) -> list[str]:
    unknown = [name for name in text.split(",") if name not in VARIANTS]
    if unknown:
        known = ", ".join(VARIANTS)
        raise argparse.ArgumentTypeError(f"unknown {', '.join(unknown)}; there are {known}")
    return text.split(",")


def _seeds(text: str) -> list[int]:
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"got {text}; give numbers, for example 0,1") from error


def _robot(text: str) -> str:
    try:
        task = get_robot(text).task
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if task != "joystick":
        raise argparse.ArgumentTypeError(f"{text} has the {task} task; give a legged robot")
    return text


def _count(text: str) -> int:
    try:
        return parse_count(text, "--timesteps")
    except UserError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def measure(job: tuple[str, int], args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Train one variant with one seed in a process of its own, then measure its checkpoints."""
    name, seed = job
    variant = VARIANTS[name]
    flags = ["--robot", args.robot, "--physics", "native", "--threads", "1", "--seed", str(seed)]
    flags += ["--num-envs", str(args.num_envs), "--eval-every", "0", *variant.flags]
    train(flags, folder, args.timesteps, CHECKS, ONE_CORE)
    points = curve(folder, ONE_CORE)
    good = first_good(points, args.error)
    return {
        "name": name,
        "what": variant.what,
        "flags": variant.flags,
        "seed": seed,
        "steps_to_good": good.get("env_steps"),
        "minutes_to_good": good["wall_s"] / 60 if good else None,
        "env_steps_per_s": points[-1]["env_steps"] / points[-1]["wall_s"],
        "end": points[-1],
        "curve": points,
    }


def show(row: dict[str, Any]) -> None:
    good, end = "not reached", row["end"]
    if row["steps_to_good"]:
        good = f"{row['steps_to_good'] / 1e6:.1f}M steps, {row['minutes_to_good']:.1f} min"
    print(
        f"{row['name']:16s} seed {row['seed']}: {good:22s} at the end "
        f"{end['velocity_error']:.3f} m/s, {end['yaw_error']:.3f} rad/s, "
        f"{end['falls']} of 10 fall, {end['power']:.0f} W; "
        f"{row['env_steps_per_s']:,.0f} steps/s",
        flush=True,
    )


def table(rows: list[dict[str, Any]]) -> str:
    """A Markdown table, a line per variant; each cell has a figure per seed and, where all seeds
    have it, their mean."""
    lines = [
        "| | seeds | million env steps until good | minutes | velocity error at the end, m/s "
        "| yaw rate error, rad/s | fell, of 10 | power, W |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["name"] for row in rows):
        runs = sorted((row for row in rows if row["name"] == name), key=lambda row: row["seed"])
        ends = [run["end"] for run in runs]
        steps = [run["steps_to_good"] and run["steps_to_good"] / 1e6 for run in runs]
        cells = [
            VARIANTS[name].what,
            ", ".join(str(run["seed"]) for run in runs),
            _cell(steps, "{:.1f}".format),
            _cell([run["minutes_to_good"] for run in runs], "{:.1f}".format),
            _cell([end["velocity_error"] for end in ends], "{:.3f}".format),
            _cell([end["yaw_error"] for end in ends], "{:.3f}".format),
            ", ".join(str(end["falls"]) for end in ends),
            _cell([end["power"] for end in ends], "{:.0f}".format),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: list[Any], form: Callable[[float], str]) -> str:
    each = ", ".join("-" if value is None else form(value) for value in values)
    if len(values) < 2 or None in values:
        return each
    return f"{each}; mean {form(statistics.mean(values))}"


def settings_of(args: argparse.Namespace) -> dict[str, Any]:
    """What all rows of a file share."""
    names = ("robot", "num_envs", "timesteps", "error")
    return {name: getattr(args, name) for name in names}


def keep(
    out: Path, args: argparse.Namespace, rows: list[dict[str, Any]], before: str | None
) -> None:
    """Write what is known so far, and the command that wrote it, after the one before."""
    command = f"python benchmarks/ablation.py {' '.join(sys.argv[1:])}".strip()
    record = {
        "command": f"{before}, then {command}" if before else command,
        **settings_of(args),
        "rows": rows,
    }
    out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
