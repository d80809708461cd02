"""PPO, A2C, SAC and DQN side by side: how soon each reaches a return, and what it costs.

    python benchmarks/compare_algorithms.py [--only cartpole,g1_12dof] [--algos ppo,sac]
        [--seeds 5] [--timesteps N]

Each run is the real command, one after the other, in a process of its own that is watched from
outside: time counts from the command's start, compiling and all. Runs go on to their goals, for the
curves. Figures over seeds are interquartile means with 95 % bootstrap intervals (Agarwal et al.
2021, arXiv:2108.13264). Results are kept after every run in
benchmarks/results/compare-algorithms.json, and a later call replaces those that it repeats. The
table is printed, the curves are drawn beside the JSON.
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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import compare_plot
import numpy as np
from timed_process import Tail

from jaxrl_hw.cli.report.statistics import FEWEST_FOR_IQM, spread
from jaxrl_hw.config.units import parse_count
from jaxrl_hw.errors import RunError
from jaxrl_hw.planning.benchmark import failure

RESULTS = Path(__file__).parent / "results" / "compare-algorithms.json"
POINTS = 60
"""Of a curve that is kept."""

Row = Mapping[str, Any]


class Task(NamedTuple):
    """What is learned, and when it is learned well."""

    flags: dict[str, list[str]]  # of the command, by algorithm
    seeds: int
    measure: str  # in a row of metrics.jsonl: what the curves show
    target: str  # the same in words
    is_reached: Any  # of a row


def _returns(least: float) -> Any:
    return lambda row: (row.get("episode_return") or -np.inf) >= least


def _walks(row: Row) -> bool:
    """The policy as `evaluate` takes it, under the ten commands."""
    return row.get("eval/falls") == 0 and row["eval/velocity_error"] <= 0.15


SWINGS_UP = 391.0
"""Nine tenths of the 434 that PPO's `best` preset ends with on cartpole."""
REACHES = -40.0
"""Of Brax's reacher in 1,000 steps: the fingertip is 4 cm from its target on average. Actions at
random have -800."""
_REACHER = ["--env", "brax:reacher", "--timesteps"]
_CARTPOLE, _DISCRETE, _LEGS = (
    ["--robot", name] for name in ("cartpole", "cartpole_discrete", "g1_12dof")
)
TASKS = {
    "cartpole": Task(
        {"ppo": _CARTPOLE, "a2c": _CARTPOLE, "sac": _CARTPOLE},
        5,
        "episode_return",
        f"a return of {SWINGS_UP:.0f}",
        _returns(SWINGS_UP),
    ),
    "cartpole_discrete": Task(
        {"dqn": _DISCRETE},
        5,
        "episode_return",
        f"a return of {SWINGS_UP:.0f}",
        _returns(SWINGS_UP),
    ),
    "reacher": Task(
        {"ppo": [*_REACHER, "1M"], "sac": [*_REACHER, "500K"]},
        5,
        "episode_return",
        f"a return of {REACHES:.0f}",
        _returns(REACHES),
    ),
    "g1_12dof": Task(
        {"ppo": [*_LEGS, "--timesteps", "5M"], "sac": _LEGS},
        3,
        "eval/velocity_error",
        "0.15 m/s, no fall",
        _walks,
    ),
}


def main(argv: Sequence[str]) -> None:
    args = _parse(argv)
    kept = read(args.out)
    for name in args.only:
        task = TASKS[name]
        for algo, flags in task.flags.items():
            if args.algos and algo not in args.algos:
                continue
            for seed in range(args.seeds or task.seeds):
                words = [*flags, "--algo", algo, "--seed", str(seed)]
                words += ["--timesteps", args.timesteps] if args.timesteps else []
                run = {"task": name, "algo": algo, "seed": seed, **trained(words, task)}
                print(json.dumps({k: v for k, v in run.items() if k != "curve"}), flush=True)
                kept = [old for old in kept if _key(old) != _key(run)] + [run]
                write(args.out, kept, _key, Path(__file__).name)
    print("\n".join(table(kept)))
    compare_plot.draw(args.out.with_suffix(".png"), kept, {n: t.measure for n, t in TASKS.items()})
    print(f"written to {args.out} and {args.out.with_suffix('.png').name}")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    names = ",".join(TASKS)
    parser.add_argument("--only", default=names, help=f"tasks: {names}")
    parser.add_argument("--algos", default="", help="ppo,a2c,sac,dqn; all that fit by default")
    parser.add_argument("--seeds", type=int, default=0, help="of each; 0: 5, and 3 of a robot")
    parser.add_argument("--timesteps", default="", help="another goal for all, such as 100K")
    parser.add_argument("--out", type=Path, default=RESULTS, help="JSON file; the plot lies beside")
    args = parser.parse_args(argv)
    args.only, args.algos = args.only.split(","), [a for a in args.algos.split(",") if a]
    if unknown := set(args.only) - set(TASKS):
        parser.error(f"--only {','.join(sorted(unknown))}: not one of {names}")
    if args.timesteps:
        parse_count(args.timesteps, "--timesteps")
    return args


def trained(words: list[str], task: Task) -> dict[str, Any]:
    """Train by the command; when its target was reached, and what the whole took.

    Times are in s from the start of the command; CPU time is of all threads.

    Raises:
      RunError: the command failed.
    """
    with tempfile.TemporaryDirectory() as place:
        folder, errors = Path(place) / "run", Path(place) / "stderr"
        command = [sys.executable, "-m", "jaxrl_hw.train", *words, "--run-dir", str(folder)]
        tail, first, met = Tail(folder / "metrics.jsonl"), None, None
        with errors.open("w") as err:
            began = time.monotonic()
            process = subprocess.Popen(
                [*command, "--no-tensorboard"], stdout=subprocess.DEVNULL, stderr=err
            )
            pid = 0
            while not pid:
                time.sleep(0.2)
                pid, status, usage = os.wait4(process.pid, os.WNOHANG)
                new, now = tail.new(), round(time.monotonic() - began, 1)
                first = now if first is None and new else first
                for row in new:
                    if met is None and task.is_reached(row):
                        met = {"wall_s": now, "env_steps": row["env_steps"]}
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode or not tail.rows:
            text = errors.read_text(errors="replace")
            raise RunError(f"{' '.join(words)}: {failure(process.returncode, text)}")
    return {
        "flags": " ".join(words),
        "reached": met,
        "first_iteration_s": first,
        "env_steps": tail.rows[-1]["env_steps"],
        "wall_s": now,
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_bytes": tail.rows[-1]["memory_bytes"],
        "curve": _curve(tail.rows, task.measure),
    }


def _curve(rows: Sequence[Row], measure: str) -> list[list[float]]:
    """[env steps, training time in s, value] at up to `POINTS` rows that have one."""
    having = [row for row in rows if row.get(measure) is not None]
    chosen = np.unique(np.linspace(0, len(having) - 1, min(POINTS, len(having))).astype(int))
    return [[having[i]["env_steps"], having[i]["wall_s"], having[i][measure]] for i in chosen]


def table(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Lines of Markdown: a row for each task and algorithm."""
    lines = [
        "| task, target | algorithm | seeds | env steps | time | memory | at the end |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, task in TASKS.items():
        for algo in task.flags:
            those = [run for run in runs if (run["task"], run["algo"]) == (name, algo)]
            if those:
                lines.append(_line(f"{name}, {task.target}", algo, those))
    return lines


def _line(what: str, algo: str, runs: Sequence[Mapping[str, Any]]) -> str:
    met = [run["reached"] for run in runs if run["reached"]]
    steps = spread_text([one["env_steps"] / 1e6 for one in met], "{:.3g}M")
    times = spread_text([one["wall_s"] for one in met], "{:.0f} s")
    if met:
        times += f", longest {max(one['wall_s'] for one in met):.0f} s"
    memory = statistics.median(run["memory_bytes"] for run in runs) / 1e6
    end = spread_text([run["curve"][-1][2] for run in runs if run["curve"]], "{:.3g}")
    cells = (what, algo, f"{len(met)} of {len(runs)}", steps, times, f"{memory:.0f} MB", end)
    return f"| {' | '.join(cells)} |"


def spread_text(values: Sequence[float], form: str) -> str:
    """The interquartile mean and its interval; of few values the mean."""
    if not values:
        return "-"
    found = spread(values)
    if len(values) < FEWEST_FOR_IQM:
        return f"{form.format(found['mean'])} (mean of {len(values)})"
    low, high = form.format(found["iqm_low"]), form.format(found["iqm_high"])
    return f"{form.format(found['iqm'])} ({low} to {high})"


def _key(run: Mapping[str, Any]) -> tuple[Any, ...]:
    return run["task"], run["algo"], run["seed"]


def read(path: Path) -> list[dict[str, Any]]:
    """Runs that were kept; none where there is no file yet."""
    kept: list[dict[str, Any]] = json.loads(path.read_text())["runs"] if path.exists() else []
    return kept


def write(path: Path, runs: Sequence[Mapping[str, Any]], key: Any, script: str) -> None:
    """Keep runs, in the order of a key of theirs."""
    order = sorted(runs, key=lambda run: str(key(run)))
    lines = ",\n".join(f"  {json.dumps(run)}" for run in order)
    command = f"python benchmarks/{script}"
    path.write_text(f'{{"command": "{command}", "runs": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])
