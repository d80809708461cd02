"""This library beside Brax PPO on MuJoCo Playground's G1, at the same sizes.

    python benchmarks/versus_brax.py --peer-python PEER/bin/python
    python benchmarks/versus_brax.py --only feet,shapes            # sides that need no peer
    python benchmarks/versus_brax.py --to-error 0.3 --only brax,feet

PEER is an environment with brax, playground and the same jax and mujoco; $JAXRL_HW_PEER_PYTHON
names it too. Each run is a process of its own with an empty compilation cache. The sides alternate,
and each counts with its medians. Compare ratios, which are taken within a round, because machines
of many tenants change speed.

Equal on all sides but `preset`: environments, 10 physics steps of 2 ms per control step, unroll,
epochs, minibatches, widths of the networks, and nothing that Brax's PPO has not (memory of past
observations, mirror loss, estimation, stages). The sides of which the feet collide also have
Playground's integrator and bounds of the solver. Rewards and observations are each library's own.
Writes benchmarks/results/versus-brax-<platform>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from timed_process import COMPILING, HERE, Timing, watched

from jaxrl_hw.checkpointing.provenance import git_commit, package_versions
from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.errors import UserError, unknown
from jaxrl_hw.hardware.detect import detect

PEER = "JAXRL_HW_PEER_PYTHON"
PEER_NEEDS = ("brax", "mujoco_playground")
_SAME_WORK = (
    *("--net.memory", "none", "--ppo.symmetry", "none", "--ppo.estimation-coef", "0"),
    *("--curriculum", "none"),
)


class Side(NamedTuple):
    """One row: what is trained, and with which flags where it is ours."""

    about: str
    flags: tuple[str, ...] = ()


SIDES = {
    "brax": Side("Brax PPO, Playground's G1: feet collide"),
    "feet": Side("jaxrl_hw: feet collide", ("--robot", "feet_only", *_SAME_WORK)),
    "mjx": Side(
        "jaxrl_hw on MJX: feet collide", ("--robot", "feet_only", "--physics", "mjx", *_SAME_WORK)
    ),
    "shapes": Side("jaxrl_hw: all shapes collide", ("--robot", "g1", *_SAME_WORK)),
    "preset": Side(
        "jaxrl_hw: all shapes, memory, mirror loss, estimation, stages", ("--robot", "g1")
    ),
}


Command = Callable[[str, argparse.Namespace, Path, int], tuple[list[str], Path]]
"""(side, flags, an empty folder, seed) -> the command to run and the metrics that it writes."""


def main(argv: Sequence[str] | None = None, command: Command | None = None) -> int:
    """Run the benchmark; 2 for bad input, 1 where a run failed.

    command: what starts a run; None starts the real ones.
    """
    words = sys.argv[1:] if argv is None else argv
    return run_command(lambda: _run(words, command or start))


def _run(argv: Sequence[str], command: Command) -> int:
    args = parsed(argv)
    sides = args.only or list(SIDES)
    if "brax" in sides:
        _check_peer(args.peer_python)
    out = args.out or HERE / "results" / f"versus-brax-{detect().platform}.json"
    runs: dict[str, list[Timing]] = {side: [] for side in sides}
    made: dict[str, Any] = {}
    for round_ in range(args.repeats):
        for side in sides if round_ % 2 == 0 else reversed(sides):
            with tempfile.TemporaryDirectory() as place:
                words, metrics = command(side, args, Path(place), round_)
                run = watched(words, metrics, Path(place), args.to_error, args.limit)
                runs[side].append(run)
                if side == "brax":
                    made = json.loads((Path(place) / "model.json").read_text())
            print(f"round {round_ + 1}, {side}: {_in_words(runs[side][-1])}", flush=True)
        record = _record(argv, args, runs, made)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    _show(record)
    print(f"written to {out}")
    return DONE


def _record(
    argv: Sequence[str],
    args: argparse.Namespace,
    runs: dict[str, list[Timing]],
    made: dict[str, Any],
) -> dict[str, Any]:
    """What is written after each round.

    made: what was done to build the peer's model; empty where it did not run.
    """
    hardware = detect()
    sizes = ("num_envs", "unroll", "epochs", "minibatches", "net", "iterations")
    return {
        "hardware": f"{hardware.name}, {hardware.cores} cores",
        "command": " ".join(["python benchmarks/versus_brax.py", *_public(argv)]),
        "sizes": {name: getattr(args, name) for name in sizes},
        "to_error": args.to_error or None,
        "versions": package_versions(),
        "commit": git_commit(),
        "peer": {**made, "versions": _peer_versions(args.peer_python)} if made else None,
        "rows": [row(side, runs) for side in runs],
    }


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), help=", ".join(SIDES))
    parser.add_argument("--peer-python", default=os.environ.get(PEER, sys.executable))
    parser.add_argument("--peer-impl", default="jax", choices=("jax", "warp"))
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--unroll", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--net", type=int, nargs="+", default=[512, 256, 128])
    parser.add_argument("--iterations", type=int, default=6, help="of a run; two compile")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side")
    parser.add_argument("--to-error", type=float, default=0.0, metavar="M/S")
    parser.add_argument("--limit", type=float, default=3600.0, help="s, of a run with --to-error")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse(argv)
    for side in args.only or ():
        if side not in SIDES:
            raise unknown("side", side, tuple(SIDES))
    if args.num_envs % args.minibatches:
        raise UserError(
            f"--num-envs {args.num_envs} must be a multiple of --minibatches {args.minibatches}"
        )
    if args.iterations <= COMPILING or args.repeats < 1:
        raise UserError(
            f"--iterations must be more than the {COMPILING} that compile, and --repeats at least "
            f"1; got {args.iterations} and {args.repeats}"
        )
    return args


def _check_peer(python: str) -> None:
    """Refuse a Python that lacks the peer, before anything runs."""
    code = f"import importlib.util as u; print(*(n for n in {PEER_NEEDS} if not u.find_spec(n)))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"--peer-python {python} cannot be run") from error
    if missing := done.stdout.split():
        raise UserError(
            f"the peer's Python has no {' and no '.join(missing)}: install brax and playground "
            "into an environment of their own and give it as --peer-python PATH, or leave brax out "
            "of --only"
        )


def _peer_versions(python: str) -> dict[str, str]:
    names = ("brax", "playground", "jax", "jaxlib", "mujoco", "mujoco-mjx")
    found = f"{{n: m.version(n) for n in {names}}}"
    code = f"import json, importlib.metadata as m; print(json.dumps({found}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def start(side: str, args: argparse.Namespace, place: Path, seed: int) -> tuple[list[str], Path]:
    """The command of one run of a side, and the metrics that it will write."""
    if side == "brax":
        metrics = place / "metrics.jsonl"
        command = [args.peer_python, str(HERE / "brax_side.py"), *_peer_flags(args, seed)]
        return [*command, "--out", str(metrics), "--model-out", str(place / "model.json")], metrics
    command = [sys.executable, "-m", "jaxrl_hw.train", *our_flags(side, args, seed)]
    return [*command, "--run-dir", str(place / "run")], place / "run" / "metrics.jsonl"


def _peer_flags(args: argparse.Namespace, seed: int) -> list[str]:
    iterations = 1_000_000 if args.to_error else args.iterations
    numbers = {"num-envs": args.num_envs, "unroll": args.unroll, "epochs": args.epochs}
    numbers |= {"minibatches": args.minibatches, "iterations": iterations, "seed": seed}
    flags = [word for name, value in numbers.items() for word in (f"--{name}", str(value))]
    return [*flags, "--impl", args.peer_impl, "--net", *map(str, args.net)]


def our_flags(side: str, args: argparse.Namespace, seed: int) -> list[str]:
    """The flags of `train` for one of our sides."""
    net = list(map(str, args.net))
    goal = ["--timesteps", "0", "--iterations", str(args.iterations)]
    return [
        *SIDES[side].flags,
        *("--num-envs", str(args.num_envs), "--ppo.unroll", str(args.unroll)),
        *("--ppo.epochs", str(args.epochs), "--timestep", "0.002"),
        *("--ppo.minibatch-size", str(args.num_envs * args.unroll // args.minibatches)),
        *("--net.policy", *net, "--net.value", *net, "--seed", str(seed)),
        *("--eval-every", "0", "--no-tensorboard", *([] if args.to_error else goal)),
    ]


def row(side: str, runs: dict[str, list[Timing]]) -> dict[str, Any]:
    """Medians of a side, and of its speed over Brax's in the same round."""

    def median(pick: Callable[[Timing], float | None]) -> float | None:
        found = [value for one in runs[side] if (value := pick(one)) is not None]
        return statistics.median(found) if found else None

    pairs = zip(runs[side], runs.get("brax", ()), strict=False)
    ratios = [
        ours.env_steps_per_s / peer.env_steps_per_s
        for ours, peer in pairs
        if ours.env_steps_per_s and peer.env_steps_per_s
    ]
    return {
        "side": side,
        "about": SIDES[side].about,
        "env_steps_per_s": median(lambda one: one.env_steps_per_s),
        "times_brax": statistics.median(ratios) if ratios else None,
        "times_brax_range": [min(ratios), max(ratios)] if ratios else None,
        "first_iteration_s": median(lambda one: one.first_iteration_s),
        "peak_resident_bytes": median(lambda one: one.peak_resident_bytes),
        "to_error_s": median(lambda one: one.to_error_s),
        "runs": [one._asdict() for one in runs[side]],
    }


def _public(argv: Sequence[str]) -> list[str]:
    """The flags without this machine's paths."""
    return re.sub(r"(--(?:peer-python|out))[= ]\S+", r"\1 PATH", " ".join(argv)).split()


def _in_words(run: Timing) -> str:
    rate = "no speed" if run.env_steps_per_s is None else f"{run.env_steps_per_s:,.0f} env steps/s"
    met = "" if run.to_error_s is None else f", error met after {run.to_error_s:.0f} s"
    peak = run.peak_resident_bytes / 1e6
    return f"{rate}, first iteration {run.first_iteration_s:.1f} s, {peak:,.0f} MB{met}"


def _show(record: dict[str, Any]) -> None:
    print("| | env steps/s | times Brax | first iteration | peak memory | to the error |")
    print("|---|---|---|---|---|---|")
    for row in record["rows"]:
        rate, times = row["env_steps_per_s"], row["times_brax"]
        met = "-" if row["to_error_s"] is None else f"{row['to_error_s']:,.0f} s"
        shown = [
            "-" if rate is None else f"{rate:,.0f}",
            "-" if times is None else f"{times:.2f}",
            f"{row['first_iteration_s']:.0f} s",
            f"{row['peak_resident_bytes'] / 1e6:,.0f} MB",
            met,
        ]
        print(f"| {row['about']} | {' | '.join(shown)} |")
    if peer := record["peer"]:
        print(
            f"Playground's model is its wheel's MJCF without {peer['mesh_geoms_removed']} geoms "
            f"that only show meshes, which are not in the wheel: {peer['joints']} joints, "
            f"{peer['mass_kg']} kg, {peer['pairs_that_may_meet']} pairs that may meet."
        )


if __name__ == "__main__":
    sys.exit(main())
