"""SAC with many small updates beside few large ones, of the same samples.

    python benchmarks/update_sizes.py [--sizes 64x128,16x512,4x2048,1x8192] [--seeds 3]

Trains cartpole by the real command: GRADIENT_STEPSxBATCH_SIZE after every 256 env steps, all else
the preset's. Each run is a process of its own, one after the other. Figures over seeds are the env
steps and the time until a return of nine tenths of what PPO's `best` preset ends with, the CPU time
of the whole run, and the return at its end. Results are kept after every run in
benchmarks/results/update-sizes-<platform>.json. A later call replaces those that it repeats.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compare_algorithms import TASKS, read, spread_text, trained, write

from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.config.units import parse_count
from jaxrl_hw.hardware.detect import detect

RESULTS = Path(__file__).parent / "results"
SIZES = "64x128,16x512,4x2048,1x8192"
TASK = TASKS["cartpole"]

Run = Mapping[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 for bad input, 1 where a run failed."""
    words = sys.argv[1:] if argv is None else argv
    return run_command(lambda: _run(words))


def _run(words: Sequence[str]) -> int:
    args = _parse(words)
    out = args.out or RESULTS / f"update-sizes-{detect().platform}.json"
    kept = read(out)
    for seed in range(args.seeds):
        for size in args.sizes:
            steps, batch = size.split("x")
            flags = [*TASK.flags["sac"], "--algo", "sac", "--seed", str(seed)]
            flags += ["--sac.gradient-steps", steps, "--sac.batch-size", batch]
            flags += ["--timesteps", args.timesteps] if args.timesteps else []
            run = {"size": size, "seed": seed, **trained(flags, TASK)}
            print(json.dumps({k: v for k, v in run.items() if k != "curve"}), flush=True)
            kept = [old for old in kept if _key(old) != _key(run)] + [run]
            write(out, kept, _key, Path(__file__).name)
    print("\n".join(table(kept)))
    print(f"written to {out}")
    return DONE


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", default=SIZES, help="GRADIENT_STEPSxBATCH_SIZE, ...")
    parser.add_argument("--seeds", type=int, default=3, help="of each")
    parser.add_argument("--timesteps", default="", help="another goal for all, such as 100K")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args(words)
    args.sizes = args.sizes.split(",")
    for size in args.sizes:
        if not re.fullmatch(r"[1-9]\d*x[1-9]\d*", size):
            parser.error(f"--sizes {size}: a size is GRADIENT_STEPSxBATCH_SIZE, such as 64x128")
    if args.seeds < 1:
        parser.error(f"--seeds {args.seeds}: at least 1")
    if args.timesteps:
        parse_count(args.timesteps, "--timesteps")
    return args


def table(runs: Sequence[Run]) -> list[str]:
    """Lines of Markdown: a row for each size, from many updates to few."""
    lines = [
        f"| gradient steps x batch | seeds to {TASK.target} | env steps | time | CPU time | end |",
        "|---|---|---|---|---|---|",
    ]
    for size in sorted({run["size"] for run in runs}, key=lambda size: -int(size.split("x")[0])):
        those = [run for run in runs if run["size"] == size]
        met = [run["reached"] for run in those if run["reached"]]
        cells = (
            size.replace("x", " x "),
            f"{len(met)} of {len(those)}",
            spread_text([one["env_steps"] / 1e3 for one in met], "{:.0f}K"),
            spread_text([one["wall_s"] for one in met], "{:.0f} s"),
            spread_text([run["cpu_s"] for run in those], "{:.0f} s"),
            spread_text([run["curve"][-1][2] for run in those if run["curve"]], "{:.0f}"),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def _key(run: Run) -> tuple[Any, ...]:
    return run["size"], run["seed"]


if __name__ == "__main__":
    sys.exit(main())
