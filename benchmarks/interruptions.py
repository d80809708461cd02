"""How a run takes being killed: python benchmarks/interruptions.py --kills 50

One run is killed with SIGKILL at random moments, from its first second on: while it loads,
compiles, trains or writes a checkpoint. Each time the same command is run again. At the end it is
compared with a run of the same seed that nobody disturbed: every reproducible figure of
metrics.jsonl, and every array of the last state, bit for bit. A second, undisturbed run, of
`--measure`, tells what saving costs. Writes benchmarks/results/interruptions-<platform>.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
BY_THE_CLOCK = {"wall_s", "iterations_per_min", "env_steps_per_s", "memory_bytes"}
AFTER = 20  # iterations that are trained after the last kill


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument(
        "--longest", type=float, default=25.0, help="seconds before a kill, at most"
    )
    parser.add_argument("--robot", default="cartpole")
    parser.add_argument("--num-envs", type=int, default=64)
    parser.add_argument("--save-every", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--measure", default="g1", help="robot whose saving is timed; none: no")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        result = interrupt(args, Path(place))
        if args.measure != "none":
            result["saving"] = saving(args.measure, Path(place))
    show(result)
    kind = result["platform"]
    out = RESULTS / f"interruptions-{kind}.json"
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"written to {out}")


def interrupt(args: argparse.Namespace, place: Path) -> dict[str, Any]:
    """Kill a run again and again, finish it, and hold it against an undisturbed one."""
    rng = random.Random(args.seed)
    killed, whole = place / "killed", place / "whole"
    command = [*train(args.robot, args.num_envs), "--save-every", str(args.save_every)]
    kills: list[dict[str, Any]] = []
    start = time.perf_counter()
    while len(kills) < args.kills:
        kills.append(kill_once(command, killed, rng.uniform(0.0, args.longest)))
        print(f"kill {len(kills)} of {args.kills}: {described(kills[-1])}", flush=True)
    goal = newest(killed) + AFTER
    for folder in (killed, whole):
        subprocess.run(
            [*command, "--run-dir", str(folder), "--iterations", str(goal)],
            check=True,
            stdout=subprocess.DEVNULL,
        )
    lost = [kill["lost"] for kill in kills]
    return {
        "platform": json.loads((killed / "plan.json").read_text())["hardware"]["platform"],
        "hardware": json.loads((killed / "plan.json").read_text())["hardware"]["name"],
        "python": platform.python_version(),
        "robot": args.robot,
        "num_envs": args.num_envs,
        "save_every": args.save_every,
        "iterations": goal,
        "minutes": (time.perf_counter() - start) / 60,
        "kills": len(kills),
        "killed_before_training": sum(kill["rows"] == kill["rows_before"] for kill in kills),
        "survived": sum(kill["survived"] for kill in kills),
        "lost_iterations_max": max(lost),
        "lost_iterations_mean": sum(lost) / len(lost),
        "rows_without_gap_or_double": [row["iteration"] for row in rows(killed)]
        == list(range(1, goal + 1)),
        "same_metrics": reproducible(killed) == reproducible(whole),
        "same_state": same_state(killed, whole),
        "checkpoint_bytes": folder_bytes(killed / "checkpoints" / str(goal)),
    }


def train(robot: str, num_envs: int) -> list[str]:
    base = [sys.executable, "-m", "jaxrl_hw.train", "--robot", robot, "--no-tensorboard"]
    return [*base, "--num-envs", str(num_envs), "--iterations", "1000000"]


def kill_once(command: list[str], folder: Path, seconds: float) -> dict[str, Any]:
    """Run the command, kill it after so long, and see what is left."""
    had, before = newest(folder), len(rows(folder))
    process = subprocess.Popen(
        [*command, "--run-dir", str(folder)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    ended_itself = True
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        ended_itself = False
        process.kill()
    err = process.communicate()[1].decode()
    after = rows(folder)
    reached = after[-1]["iteration"] if after else 0
    return {
        "seconds": round(seconds, 2),
        "rows_before": before,
        "rows": len(after),
        "reached": reached,
        "checkpoint": newest(folder),
        "lost": max(0, reached - newest(folder)),
        # it was running until it was killed, and what was saved before is still there
        "survived": not ended_itself and newest(folder) >= had,
        "error": err.strip().splitlines()[-1:] if ended_itself else [],
    }


def described(kill: dict[str, Any]) -> str:
    return (
        f"after {kill['seconds']:4.1f} s, iteration {kill['reached']}, "
        f"checkpoint {kill['checkpoint']}, {kill['lost']} lost {' '.join(kill['error'])}"
    )


def newest(folder: Path) -> int:
    """The newest whole checkpoint, 0 without one."""
    there = folder / "checkpoints"
    names = [path.name for path in there.iterdir()] if there.is_dir() else []
    return max((int(name) for name in names if name.isdecimal()), default=0)


def rows(folder: Path) -> list[dict[str, Any]]:
    """The whole rows of metrics.jsonl; a half one at the end is what a kill may leave."""
    path, found = folder / "metrics.jsonl", []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def reproducible(folder: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if k not in BY_THE_CLOCK} for row in rows(folder)]


def same_state(one: Path, other: Path) -> bool:
    import jax

    from jaxrl_hw import load_run

    def leaves(folder: Path) -> list[np.ndarray]:
        found = jax.tree.leaves(load_run(folder).state)
        keys = [jax.random.key_data(x) if _is_key(x) else x for x in found]
        return [np.asarray(x) for x in keys]

    pairs = zip(leaves(one), leaves(other), strict=True)
    return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def _is_key(leaf: Any) -> bool:
    import jax

    return bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def saving(robot: str, place: Path) -> dict[str, Any]:
    """What saves cost a run of 40 iterations with one every 10."""
    folder = place / "saving"
    subprocess.run(
        [
            *(sys.executable, "-m", "jaxrl_hw.train", "--robot", robot, "--no-tensorboard"),
            *("--iterations", "40", "--save-every", "10", "--run-dir", str(folder)),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    session = json.loads((folder / "sessions.jsonl").read_text().splitlines()[-1])
    return {
        "robot": robot,
        "num_envs": session["num_envs"],
        "save_every": 10,
        "seconds": session["seconds"],
        "save_s": session["save_s"],
        "save_blocked_s": session["save_blocked_s"],
        "blocked_share": session["save_blocked_s"] / session["seconds"],
        "checkpoint_bytes": folder_bytes(folder / "checkpoints" / "40"),
    }


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['survived']} of {result['kills']} kills survived "
        f"({result['killed_before_training']} before the first iteration); lost iterations: "
        f"{result['lost_iterations_mean']:.1f} on average, {result['lost_iterations_max']} at "
        f"most, with a checkpoint every {result['save_every']}"
    )
    exact = result["same_metrics"] and result["same_state"]
    print(f"after {result['iterations']:,} iterations the same to the bit: {exact}")
    if "saving" in result:
        s = result["saving"]
        print(
            f"{s['robot']}: a checkpoint of {s['checkpoint_bytes'] / 1e6:.2f} MB every 10 "
            f"iterations blocks {100 * s['blocked_share']:.2f} % of the time "
            f"({s['save_blocked_s']:.3f} of {s['seconds']:.1f} s; written in {s['save_s']:.2f} s)"
        )


if __name__ == "__main__":
    main()
