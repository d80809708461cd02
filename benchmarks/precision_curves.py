"""Learning in bfloat16 beside float32: whether the curves differ by more than seeds do.

    python benchmarks/precision_curves.py [--only ppo,sac] [--seeds 3] [--timesteps N]

Trains cartpole by the real command in both precisions, a process each, one after the other. A curve
becomes two figures: the mean return over the run, and the return at its end (last tenth). Welch's
t-test compares the means over seeds of each. Results are kept after every run in
benchmarks/results/precision-curves-<platform>.json. A later call replaces those that it repeats.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from compare_algorithms import TASKS, read, trained, write
from scipy import stats

from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.config.units import parse_count
from jaxrl_hw.errors import unknown
from jaxrl_hw.hardware.detect import detect

RESULTS = Path(__file__).parent / "results"
ALGORITHMS = ("ppo", "sac")
PRECISIONS = ("float32", "bfloat16")
TASK = "cartpole"

Run = Mapping[str, Any]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark; 2 for bad input, 1 where a run failed."""
    words = sys.argv[1:] if argv is None else argv
    return run_command(lambda: _run(words))


def _run(words: Sequence[str]) -> int:
    args = _parse(words)
    out = args.out or RESULTS / f"precision-curves-{detect().platform}.json"
    kept = read(out)
    task = TASKS[TASK]
    for seed in range(args.seeds):
        for algo in args.only:
            for precision in PRECISIONS:
                flags = [*task.flags[algo], "--algo", algo, "--seed", str(seed)]
                flags += ["--timesteps", args.timesteps] if args.timesteps else []
                found = trained([*flags, "--precision", precision], task)
                run = {"algo": algo, "precision": precision, "seed": seed, **found}
                print(json.dumps({k: v for k, v in run.items() if k != "curve"}), flush=True)
                kept = [old for old in kept if _key(old) != _key(run)] + [run]
                write(out, kept, _key, Path(__file__).name)
    print("\n".join(table(kept)))
    print(f"written to {out}")
    return DONE


def _parse(words: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(ALGORITHMS), help="algorithms")
    parser.add_argument("--seeds", type=int, default=3, help="of each algorithm and precision")
    parser.add_argument("--timesteps", default="", help="another goal for all, such as 100K")
    parser.add_argument("--out", type=Path, help="JSON file")
    args = parser.parse_args(words)
    args.only = args.only.split(",")
    for name in args.only:
        if name not in ALGORITHMS:
            raise unknown("algorithm", name, ALGORITHMS)
    if args.seeds < 2:
        parser.error(f"--seeds {args.seeds}: a difference needs at least 2 of each")
    if args.timesteps:
        parse_count(args.timesteps, "--timesteps")
    return args


def table(runs: Sequence[Run]) -> list[str]:
    """Lines of Markdown: a row for each algorithm and figure, mean and deviation over seeds."""
    lines = ["| algorithm | return | float32 | bfloat16 | p |", "|---|---|---|---|---|"]
    for algo in ALGORITHMS:
        pairs = [_figures(runs, algo, precision) for precision in PRECISIONS]
        if min(len(figures) for figures in pairs) < 2:
            continue
        for column, what in enumerate(("mean of the run", "at the end")):
            sides = [figures[:, column] for figures in pairs]
            cells = [f"{side.mean():.0f} ± {side.std(ddof=1):.0f}" for side in sides]
            p = stats.ttest_ind(*sides, equal_var=False).pvalue
            lines.append(f"| {algo} | {what} | {cells[0]} | {cells[1]} | {p:.2f} |")
    return lines


def _figures(runs: Sequence[Run], algo: str, precision: str) -> np.ndarray:
    """[seeds, 2]: the mean return over a run, and over its last tenth."""
    found = []
    for run in runs:
        if (run["algo"], run["precision"]) == (algo, precision):
            values = np.array(run["curve"], float)[:, 2]
            found.append((values.mean(), values[-max(1, len(values) // 10) :].mean()))
    return np.array(found).reshape(-1, 2)


def _key(run: Run) -> tuple[Any, ...]:
    return run["algo"], run["precision"], run["seed"]


if __name__ == "__main__":
    sys.exit(main())
