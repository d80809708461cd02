"""What makes a walking policy learn fast: the recommended recipe, with one thing changed at a time.

    python benchmarks/ablation.py [--variants recipe,augment,...] [--million-steps 4] [--seed 0]

Every variant is trained by the real command for the same number of control steps, on one core each,
two at a time. Its checkpoints are then measured as `python -m jaxrl_hw.evaluate` does (2 ms, PD
torques at every physics step, ten commands); the figure is how many million steps it took to a mean
velocity error under 0.2 m/s without a fall. Writes benchmarks/results/ablation-<robot>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).parent / "results"
GOOD = 0.2  # m/s
SAVES = 16  # checkpoints per variant


class Variant(NamedTuple):
    """What differs from the recipe."""

    what: str
    flags: list[str]
    until: float = 1.0
    """Share of the run that the flags are for; after it the recipe goes on."""


_SLOW = ["--joystick.vx", "-0.5", "0.5", "--joystick.vy", "-0.25", "0.25"]
VARIANTS = {
    "recipe": Variant("as it is", []),
    "no_mirror": Variant("no mirror loss", ["--ppo.symmetry", "none"]),
    "augment": Variant(
        "mirrored samples in place of the mirror loss", ["--ppo.symmetry", "augment"]
    ),
    "no_motion_prior": Variant("from a random policy", ["--ppo.no-motion-prior"]),
    "no_gait": Variant(
        "no gait-phase reward",
        ["--joystick.reward.foot-height", "0", "--joystick.reward.foot-contact", "0"],
    ),
    "fixed_lr": Variant("fixed learning rate 1e-3", ["--ppo.lr-schedule", "fixed"]),
    "kl_001": Variant("KL target 0.01", ["--ppo.desired-kl", "0.01"]),
    "gamma_099": Variant("gamma 0.99", ["--ppo.gamma", "0.99"]),
    "gamma_095": Variant("gamma 0.95", ["--ppo.gamma", "0.95"]),
    "envs_128": Variant(
        "128 envs, as many minibatches",
        ["--num-envs", "128", "--ppo.unroll", "24", "--ppo.minibatch-size", "512"],
    ),
    "envs_512": Variant(
        "512 envs, minibatches as large", ["--num-envs", "512", "--ppo.unroll", "24"]
    ),
    "minibatches_12": Variant("12 minibatches of half the size", ["--ppo.minibatch-size", "512"]),
    "curriculum": Variant("commands of half the speed in the first third", _SLOW, 1 / 3),
    "substeps_4": Variant("4 substeps of 5 ms", ["--timestep", "0.005"]),
    "substeps_10": Variant("10 substeps of 2 ms", ["--timestep", "0.002"]),
    "same_start": Variant(
        "every episode from the home pose",
        ["--joystick.start-joint", "0", "--joystick.start-velocity", "0"],
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--variants", default=",".join(VARIANTS))
    parser.add_argument("--robot", default="g1_12dof")
    parser.add_argument("--million-steps", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side-by-side", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    names = args.variants.split(",")
    unknown = [name for name in names if name not in VARIANTS]
    if unknown:
        parser.error(f"unknown variants {', '.join(unknown)}; there are {', '.join(VARIANTS)}")
    out = RESULTS / f"ablation-{args.robot}.json"
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.side_by_side) as pool:
        work = [pool.submit(measure, name, args, Path(folder) / name) for name in names]
        rows = []
        for done in work:
            rows.append(done.result())
            show(rows[-1])
            keep(out, args, rows)
    print(f"written to {out}")


def measure(name: str, args: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Train one variant in its own process, then measure its checkpoints in another."""
    what, flags, until = VARIANTS[name]
    count, samples = size_of(args.robot, flags)
    steps = round(args.million_steps * 1e6)
    every = max(1, steps // (samples * SAVES))
    command = [sys.executable, "-m", "jaxrl_hw.train", "--robot", args.robot, "--run-dir"]
    command += [str(folder), "--seed", str(args.seed), "--threads", "1", "--no-tensorboard"]
    command += ["--num-envs", str(count), "--save-every", str(every), "--keep", str(SAVES + 2)]
    parts = [[*without_envs(flags), "--timesteps", str(round(until * steps))]]
    if until < 1:
        recipe = [*as_in_the_recipe(args.robot, flags), "--timesteps", str(steps)]
        parts.append([*recipe, "--override-config"])
    env = {**os.environ, "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    start = time.perf_counter()
    for part in parts:
        subprocess.run([*command, *part], check=True, env=env, stdout=subprocess.DEVNULL)
    minutes = (time.perf_counter() - start) / 60
    checker = [sys.executable, __file__, "--check", str(folder)]
    checked = subprocess.run(checker, check=True, env=env, stdout=subprocess.PIPE, text=True)
    curve = json.loads(checked.stdout.splitlines()[-1])
    good = [row["env_steps"] for row in curve if row["velocity_error"] < GOOD and not row["falls"]]
    return {
        "name": name,
        "what": what,
        "flags": flags,
        "until": until,
        "steps_to_good": good[0] if good else None,
        "end": curve[-1],
        "minutes": minutes,
        "curve": curve,
    }


def size_of(robot: str, flags: list[str]) -> tuple[int, int]:
    """Environments, and env steps of an iteration: the variant's own, else the recipe's here."""
    from jaxrl_hw import make_plan
    from jaxrl_hw.cli.flags import parse
    from jaxrl_hw.config.resolve import algorithm_needs

    config = make_plan(parse(["--robot", robot, "--resume", "never", *flags])).config
    num_envs = int(config.num_envs)
    return num_envs, num_envs * algorithm_needs(config).unroll


def as_in_the_recipe(robot: str, flags: list[str]) -> list[str]:
    """The same settings with the values of the robot's preset."""
    from jaxrl_hw import preset_config
    from jaxrl_hw.config.fields import value_at

    recipe, words = preset_config(robot), []
    for word in flags:
        if word.startswith("--"):
            value = value_at(recipe, word[2:].replace("-", "_"))
            words += [word, *map(str, value if isinstance(value, tuple) else (value,))]
    return words


def without_envs(flags: list[str]) -> list[str]:
    """The flags but --num-envs and its value."""
    at = flags.index("--num-envs") if "--num-envs" in flags else len(flags)
    return flags[:at] + flags[at + 2 :]


def check(folder: Path) -> None:
    """Print the figures of every checkpoint of a run, as one line of JSON."""
    from jaxrl_hw import load_run
    from jaxrl_hw.evaluation.evaluate import evaluate

    curve = []
    for saved in sorted(
        int(p.name) for p in (folder / "checkpoints").iterdir() if p.name.isdigit()
    ):
        run = load_run(folder, saved)
        steps = run.metrics["env_steps"][saved - 1]
        curve.append({"env_steps": steps, **evaluate(run).mean})
    print(json.dumps(curve))


def show(row: dict[str, Any]) -> None:
    good = f"{row['steps_to_good'] / 1e6:.2f}M" if row["steps_to_good"] else "not reached"
    end = row["end"]
    print(
        f"{row['what']:46s} {good:12s} at the end {end['velocity_error']:.3f} m/s, "
        f"{end['yaw_error']:.3f} rad/s, {end['power']:.0f} W; {row['minutes']:.1f} min",
        flush=True,
    )


def keep(out: Path, args: argparse.Namespace, rows: list[dict[str, Any]]) -> None:
    record = {
        "command": f"python benchmarks/ablation.py {' '.join(sys.argv[1:])}".strip(),
        "robot": args.robot,
        "million_steps": args.million_steps,
        "seed": args.seed,
        "rows": rows,
    }
    out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(Path(sys.argv[2]))
    else:
        main()
