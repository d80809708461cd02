"""Iterations per minute and memory by number of environments: predicted, and measured.

    python benchmarks/iterations_vs_memory.py --robot g1 --num-envs 64,128,256,512
    python benchmarks/iterations_vs_memory.py --budgets 20 --seed 0

Each number is the real command in a process of its own, all of them with one new cache: the first
is what a new user gets, the later ones use the figures of those before. Speeds are medians over
the iterations after the first two; memory is the run's peak after compiling, as predicted
once it was compiled, and measured; the compiler's own peak and what the plan had expected before
stand beside it. The second form draws random `--memory-limit`s and small configurations, and
tells whether each was kept. Writes benchmarks/results/iterations-vs-memory-<platform>.json and
.png; what is there of other robots and engines stays.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NoReturn

import memory_budgets
import memory_plot
import memory_runs
import memory_tables

import jaxrl_hw
from jaxrl_hw.cli.command import DONE, FAILED, run_command
from jaxrl_hw.config.units import parse_num_envs
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware, detect

RESULTS = Path(__file__).parent / "results"
SIZES, ITERATIONS = "64,128,256,512", 6
PACKAGES = ("jax", "jaxlib", "mujoco", "mujoco-mjx")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: measured; 1: not a single row, or a limit that was not kept; 2: bad input."""
    return run_command(lambda: _run(_parsed(sys.argv[1:] if argv is None else argv)))


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--robot", help="default: g1")
    parser.add_argument("--num-envs", help=f"numbers of environments; default: {SIZES}")
    parser.add_argument("--physics", default="auto", choices=("native", "mjx", "auto"))
    parser.add_argument("--iterations", type=int, help=f"of each run; default: {ITERATIONS}")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--cache", type=Path, help="cache folder to use; default: a new one")
    parser.add_argument("--budgets", type=int, help="try so many random memory limits instead")
    parser.add_argument(
        "--limits-mb",
        type=int,
        nargs=2,
        default=memory_budgets.LIMITS_MB,
        help="range of the random memory limits",
    )
    parser.add_argument("--seed", type=int, default=0, help="of the random memory limits")
    args = parser.parse_args(argv)
    if args.budgets is None:
        return args
    for name in ("robot", "num_envs", "iterations", "cache"):
        if getattr(args, name) is not None:
            raise UserError(f"--budgets draws its own runs: leave out --{name.replace('_', '-')}")
    if args.budgets < 1:
        raise UserError(f"--budgets must be at least 1, got {args.budgets}")
    return args


def _run(args: argparse.Namespace) -> int:
    hardware = detect()
    results = Results(args.out, hardware)
    return sweep(args, hardware, results) if args.budgets is None else try_limits(args, results)


def sweep(args: argparse.Namespace, hardware: Hardware, results: Results) -> int:
    """A row for every number of environments of one robot on one engine."""
    robot = args.robot or "g1"
    get_robot(robot)  # an unknown one is refused before anything runs
    iterations = ITERATIONS if args.iterations is None else args.iterations
    if iterations <= memory_runs.WARMING_UP:
        raise UserError(f"--iterations must be at least 3, got {iterations}: the first 2 warm up")
    sizes = parse_sizes(SIZES if args.num_envs is None else args.num_envs)
    physics = args.physics
    if physics == "auto":
        physics = "native" if hardware.platform == "cpu" else "mjx"
    listed = ",".join(map(str, sizes))
    asked = f"--robot {robot} --num-envs {listed} --physics {physics} --iterations {iterations}"
    series = {"robot": robot, "physics": physics, **results.circumstances(asked), "rows": []}
    print(f"{robot} on {physics}, {series['hardware']}\n{memory_tables.HEAD}", flush=True)
    with memory_runs.caching_in(args.cache):
        for size in sizes:
            row = memory_runs.measure(robot, physics, size, iterations, hardware)
            series["rows"].append(row)
            series["growth"] = memory_runs.growth(series["rows"])
            print(memory_tables.line(row), flush=True)
            results.keep_series(f"{robot}/{physics}", series)
    print(memory_tables.grown(series["growth"]))
    results.draw()
    return FAILED if all("failed" in row for row in series["rows"]) else DONE


def try_limits(args: argparse.Namespace, results: Results) -> int:
    """Random limits, each kept or not."""
    physics = "native" if args.physics == "auto" else args.physics
    asked = f"--budgets {args.budgets} --seed {args.seed} --physics {physics}"
    result = {"seed": args.seed, "physics": physics, **results.circumstances(asked), "rows": []}
    trials = memory_budgets.drawn(args.budgets, args.seed, args.limits_mb)
    print(memory_tables.BUDGET_HEAD, flush=True)
    for row in memory_budgets.measured(trials, physics):
        result["rows"].append(row)
        result["summary"] = memory_budgets.summary(result["rows"])
        print(memory_tables.budget_line(row), flush=True)
        results.keep("budgets", result)
    print(memory_tables.budget_summary(result["summary"]))
    print(f"written to {results.path}")
    return DONE if all(row["ended"] in memory_budgets.GOOD for row in result["rows"]) else FAILED


def parse_sizes(text: str) -> list[int]:
    """Numbers of environments, the smallest first. Raises UserError where one cannot be run."""
    sizes = set()
    for word in text.split(","):
        size = parse_num_envs(word)
        if isinstance(size, str):
            raise UserError(f'--num-envs takes numbers here, such as {SIZES}, got "{text}"')
        sizes.add(size)
    return sorted(sizes)


class Results:
    """The file of one platform's results, written anew after every row.

    folder: where it is, made when there is something to write.

    Raises:
      UserError: the folder or the file that is there is of another kind.
    """

    def __init__(self, folder: Path, hardware: Hardware) -> None:
        self.path = folder / f"iterations-vs-memory-{hardware.platform}.json"
        self._hardware = hardware
        if folder.exists() and not folder.is_dir():
            raise UserError(f"--out {folder} is not a folder")
        self._all: dict[str, Any] = {"platform": hardware.platform, "series": {}}
        if self.path.exists():
            try:
                self._all = json.loads(self.path.read_text())
                dict(self._all["series"])
            except (ValueError, TypeError, KeyError) as error:
                raise UserError(f"{self.path} is not of this benchmark: remove it") from error

    def circumstances(self, asked: str) -> dict[str, Any]:
        """What a measurement depends on. asked: the flags that it was called with."""
        found, memory = self._hardware, self._hardware.memory_total
        size = f", {memory / 1e9:.0f} GB" if memory else ""
        return {
            "hardware": f"{found.name}, {found.cores} cores{size}",
            "command": f"python benchmarks/iterations_vs_memory.py {asked}",
            "versions": _versions(),
        }

    def keep_series(self, name: str, series: dict[str, Any]) -> None:
        """In place of what was measured before of this robot on this engine."""
        self.keep("series", {**self._all["series"], name: series})

    def keep(self, name: str, value: dict[str, Any]) -> None:
        self._all[name] = value
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self._all, indent=1) + "\n")

    def draw(self) -> None:
        """The plot of all series, beside the file."""
        picture = self.path.with_suffix(".png")
        drawn = memory_plot.draw(self._all["series"], picture)
        print(f"written to {self.path}{f' and {picture.name}' if drawn else ''}")


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "jaxrl_hw": jaxrl_hw.__version__}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


if __name__ == "__main__":
    sys.exit(main())
