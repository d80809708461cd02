"""Runs whose learning is measured: the real command, then every checkpoint as `evaluate` does it.

    python benchmarks/learning_runs.py FOLDER

prints the curve of the run in FOLDER as a line of JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Point = dict[str, Any]
"""A checkpoint: iteration, env_steps, wall_s (training alone), the mean figures of `evaluate`, and
in `falls` how many of its ten commands had a fall."""


def size_of(flags: Sequence[str]) -> tuple[int, int]:
    """Environments of a run with these flags, and env steps of an iteration."""
    from jaxrl_hw import make_plan
    from jaxrl_hw.cli.flags import parse
    from jaxrl_hw.config.resolve import algorithm_needs

    config = make_plan(parse([*flags, "--resume", "never"])).config
    return int(config.num_envs), int(config.num_envs) * algorithm_needs(config).unroll


def train(
    flags: Sequence[str],
    folder: Path,
    timesteps: int,
    checks: int,
    environ: Mapping[str, str] | None = None,
) -> None:
    """Train with these flags into a folder, and keep so many checkpoints."""
    num_envs, samples = size_of(flags)
    every = max(1, round(timesteps / samples / checks))
    command = [sys.executable, "-m", "jaxrl_hw.train", *flags, "--num-envs", str(num_envs)]
    command += ["--run-dir", str(folder), "--timesteps", str(timesteps), "--resume", "never"]
    command += ["--save-every", str(every), "--keep", str(checks + 2), "--no-tensorboard"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)


def curve(folder: Path, environ: Mapping[str, str] | None = None) -> list[Point]:
    """The figures of every checkpoint of a run, measured in a process of its own."""
    command = [sys.executable, __file__, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environ)
    points: list[Point] = json.loads(done.stdout.splitlines()[-1])
    return points


def first_good(points: Sequence[Point], error: float) -> Point:
    """The first point without a fall and with at most this velocity error, m/s; {} for none."""
    good = (p for p in points if not p["falls"] and p["velocity_error"] <= error)
    return next(good, {})


def kept(out: Path, shared: Mapping[str, Any]) -> dict[str, Any]:
    """The result file to add to, or one without rows where there is none.

    shared: what all of its runs have in common, by name. Exits with code 2 where the file differs.
    """
    if not out.exists():
        return {"rows": []}
    before: dict[str, Any] = json.loads(out.read_text())
    found = {name: before.get(name) for name in shared}
    if found != shared:
        print(f"error: --add: {out.name} has {found}, got {shared}", file=sys.stderr)
        sys.exit(2)
    return before


def measured(folder: Path) -> list[Point]:
    """The figures of every checkpoint of a run."""
    from jaxrl_hw import load_run
    from jaxrl_hw.evaluation.evaluate import evaluate

    names, points = (p.name for p in (folder / "checkpoints").iterdir()), []
    for saved in sorted(int(name) for name in names if name.isdigit()):
        run = load_run(folder, saved)
        row = {name: run.metrics[name][saved - 1] for name in ("env_steps", "wall_s")}
        found = evaluate(run)
        fell = sum(command["falls"] > 0 for command in found.rows)
        points.append({"iteration": saved, **row, **found.mean, "falls": fell})
    return points


if __name__ == "__main__":
    print(json.dumps(measured(Path(sys.argv[1]))))
