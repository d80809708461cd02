"""SAC, DQN and PPO of this library beside Brax's and rejax's, on the same environments of Brax.

    python benchmarks/versus_peers.py --peer-python PEER/bin/python
    python benchmarks/versus_peers.py --only dqn --repeats 5
    python benchmarks/versus_peers.py --only ant --to-return 500

PEER is an environment with brax, rejax and a gymnax older than 1.0, and the same jax;
$JAXRL_HW_PEER_PYTHON names it too. Each run is a process of its own with an empty compilation
cache. The sides of a row alternate. Compare ratios, which are taken within a round, because
machines of many tenants change speed.

`sac` and `dqn` count gradient steps per second, from when nothing compiles any more; every control
step of all environments is followed by so many of them, as it is the peers' way. `ant` takes the
time until the mean return of the last 100 episodes is --to-return. Equal on all sides: environment
and physics, its time limit, networks, batches, replay, gradient steps per env step, learning rate,
discount, running observation statistics, float32.
Writes benchmarks/results/versus-peers-<platform>.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from peer_figures import Result, enough_of, in_words, measured, row, table
from peer_sizes import CASES, OURS, our_flags, peer_settings, sizes_of
from timed_process import HERE, followed

from jaxrl_hw.checkpointing.provenance import git_commit, package_versions
from jaxrl_hw.cli.arguments import OneLineParser
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.errors import UserError, unknown
from jaxrl_hw.hardware.detect import detect

PEER = "JAXRL_HW_PEER_PYTHON"
Command = Callable[[str, Mapping[str, Any], Path], tuple[list[str], Path]]
"""(side, sizes, an empty folder) -> the command to run and the metrics that it writes."""


def main(argv: Sequence[str] | None = None, command: Command | None = None) -> int:
    """Run the benchmark; 2 for bad input, 1 where a run failed.

    command: what starts a run; None starts the real ones, after a look at the peer's Python.
    """
    words = sys.argv[1:] if argv is None else argv
    return run_command(lambda: _run(words, command))


def _run(argv: Sequence[str], command: Command | None) -> int:
    args = parsed(argv)
    if command is None:
        _check_peer(args)
    start = command or (lambda *run: _start(args.peer_python, *run))
    out = args.out or HERE / "results" / f"versus-peers-{detect().platform}.json"
    runs: dict[str, dict[str, list[Result]]] = {
        name: {side: [] for side in sides_of(name, args)} for name in args.only
    }
    for round_ in range(args.repeats):
        for name in args.only:
            sides = list(runs[name])
            for side in sides if round_ % 2 == 0 else reversed(sides):
                sizes = {**sizes_of(name, args), "seed": round_}
                with tempfile.TemporaryDirectory() as place:
                    words, metrics = start(side, sizes, Path(place))
                    done = followed(words, metrics, Path(place), enough_of(sizes, args.limit), 0.1)
                result = measured(done, sizes)
                runs[name][side].append(result)
                print(f"round {round_ + 1}, {name}, {side}: {in_words(result)}", flush=True)
            record = _record(argv, args, runs, command is None)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print("\n".join(table(record["rows"])))
    print(f"written to {out}")
    return DONE


def parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(CASES))
    parser.add_argument("--sides", type=lambda text: text.split(","), default=[])
    parser.add_argument("--peer-python", default=os.environ.get(PEER, sys.executable))
    parser.add_argument("--set", nargs="+", default=[], metavar="SIZE=N", help="other sizes")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side")
    parser.add_argument("--to-return", type=float, default=None, help="of ant")
    parser.add_argument("--limit", type=float, default=900.0, help="s, of a run with a return")
    parser.add_argument("--out", type=Path, default=None)
    args = parser.parse(argv)
    for name in args.only:
        if name not in CASES:
            raise unknown("case", name, tuple(CASES))
    known = {side for case in CASES.values() for side in case.sides}
    for side in args.sides:
        if side not in known:
            raise unknown("side", side, sorted(known))
    if args.repeats < 1:
        raise UserError(f"--repeats must be at least 1, got {args.repeats}")
    args.sizes = dict(_size(text) for text in args.set)
    for name in args.only:
        sizes_of(name, args)
        if not sides_of(name, args):
            raise UserError(
                f"--only {name} has no side of --sides {','.join(args.sides)}: it has "
                f"{', '.join(CASES[name].sides)}"
            )
    return args


def _size(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if not value.isdecimal() or not int(value):
        raise UserError(f"--set {text}: write SIZE=N with a whole N from 1, such as num_envs=64")
    return name, int(value)


def sides_of(name: str, args: argparse.Namespace) -> list[str]:
    """The sides of a case that run."""
    return [side for side in CASES[name].sides if not args.sides or side in args.sides]


def _check_peer(args: argparse.Namespace) -> None:
    """Refuse a Python that lacks the peers, before anything runs."""
    sides = {side for name in args.only for side in sides_of(name, args)} - {OURS}
    needed = {side.partition("-")[0] for side in sides} | ({"brax"} if sides else set())
    code = (
        f"import importlib.util as u; print(*(n for n in {sorted(needed)} if not u.find_spec(n)))"
    )
    try:
        done = subprocess.run(
            [args.peer_python, "-c", code], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise UserError(f"--peer-python {args.peer_python} cannot be run") from error
    if missing := done.stdout.split():
        raise UserError(
            f"the peer's Python has no {' and no '.join(missing)}: install brax, rejax and "
            '"gymnax<1" into an environment of their own and give it as --peer-python PATH, or '
            f"leave them out: --sides {OURS}"
        )


def _start(python: str, side: str, sizes: Mapping[str, Any], place: Path) -> tuple[list[str], Path]:
    if side != OURS:
        metrics = place / "metrics.jsonl"
        command = [
            python,
            str(HERE / "peer_side.py"),
            side,
            "--settings",
            json.dumps(peer_settings(sizes)),
        ]
        return [*command, "--out", str(metrics)], metrics
    command = [sys.executable, "-m", "jaxrl_hw.train", *our_flags(sizes)]
    return [*command, "--run-dir", str(place / "run")], place / "run" / "metrics.jsonl"


def _record(
    argv: Sequence[str],
    args: argparse.Namespace,
    runs: Mapping[str, Mapping[str, Sequence[Result]]],
    with_peer: bool,
) -> dict[str, Any]:
    hardware = detect()
    public = re.sub(r"(--(?:peer-python|out))[= ]\S+", r"\1 PATH", " ".join(argv))
    return {
        "hardware": f"{hardware.name}, {hardware.cores} cores",
        "command": f"python benchmarks/versus_peers.py {public}".strip(),
        "sizes": {name: sizes_of(name, args) for name in runs},
        "versions": package_versions(),
        "peer_versions": _peer_versions(args.peer_python) if with_peer else None,
        "commit": git_commit(),
        "rows": [
            row(name, side, sides) for name, sides in runs.items() for side in sides if sides[side]
        ],
    }


def _peer_versions(python: str) -> dict[str, str]:
    names = ("brax", "rejax", "gymnax", "jax", "jaxlib", "flax")
    code = (
        "import json, importlib.metadata as m; "
        f"have = {{d.metadata['Name'] for d in m.distributions()}}; "
        f"print(json.dumps({{n: m.version(n) for n in {names} if n in have}}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
