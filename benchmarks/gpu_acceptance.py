"""Is the library right and fast on this GPU? One command for the day a GPU is there.

    python benchmarks/gpu_acceptance.py                  # all steps, under 30 minutes
    python benchmarks/gpu_acceptance.py --only engines   # one step, under 8 minutes
    python benchmarks/gpu_acceptance.py --tiny           # tries the script itself, on a CPU

Every step runs the real commands in processes of their own and may fail alone. Its result goes
into gpu-acceptance-<device>.json and .md in benchmarks/results; results of other steps stay. Exit
code 0: every step passed or does not apply here; 1: a step failed; 2: bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import acceptance_runs as runs
import acceptance_speed as speed
import acceptance_steps as steps
from acceptance_peer import peer

from jaxrl_hw.checkpointing.provenance import git_commit, package_versions
from jaxrl_hw.cli.command import DONE, FAILED, run_command
from jaxrl_hw.envs.robots import get_robot
from jaxrl_hw.errors import UserError, one_line, unknown
from jaxrl_hw.hardware.detect import detect

RESULTS = Path(__file__).parent / "results"
PASSED, BROKEN, SKIPPED = "pass", "fail", "does not apply"


class Step(NamedTuple):
    """One part of the acceptance."""

    about: str
    run: Callable[[runs.Sizes, runs.Deadline], dict[str, Any]]
    """Returns figures; raises `runs.Failed` or `runs.Skipped`."""


STEPS = {
    "doctor": Step("every check of the doctor's passes", steps.doctor),
    "sizing": Step("expected memory against the driver's figure", steps.sizing),
    "engines": Step(
        "env steps per second of each engine, by number of environments", speed.engines
    ),
    "flags": Step("XLA's command buffers: env steps per second with each setting", speed.flags),
    "oom": Step("a run that runs out of memory continues with fewer environments", steps.oom),
    "resume": Step("killed and continued under --deterministic: the same bits", steps.resume),
    "precision": Step("bfloat16 against float32", speed.precision),
    "peer": Step("Brax PPO on Playground's G1 beside it ($JAXRL_HW_PEER_PYTHON)", peer),
    "training": Step("a policy trained for five minutes, evaluated", steps.training),
}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UserError(message)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the steps; see the module's text for the exit codes."""
    return run_command(lambda: _run(_parsed(sys.argv[1:] if argv is None else argv)))


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    parser = _Parser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--only", help=f"one step: {', '.join(STEPS)}")
    parser.add_argument("--robot", help="of sizing, engines, flags, oom and precision; default: g1")
    parser.add_argument("--tiny", action="store_true", help="smallest sizes, on cartpole")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    args = parser.parse_args(argv)
    if args.only is not None and args.only not in STEPS:
        raise unknown("step", args.only, tuple(STEPS))
    args.robot = args.robot or ("cartpole" if args.tiny else "g1")
    get_robot(args.robot)  # an unknown one is refused before anything runs
    return args


def _run(args: argparse.Namespace) -> int:
    hardware = detect()
    sizes = (runs.TINY if args.tiny else runs.FULL)._replace(
        robot=args.robot, platform=hardware.platform, device=hardware.name
    )
    device = re.sub(r"[^a-z0-9]+", "-", hardware.name.lower()).strip("-")
    path = args.out / f"gpu-acceptance-{device}.json"
    record = _record(path, hardware.name)
    for name in [args.only] if args.only else STEPS:
        print(f"{name}: {STEPS[name].about} ...", flush=True)
        record["steps"][name] = _tried(STEPS[name], sizes)
        _keep(path, record)
        print(f"{name}: {_line(record['steps'][name])}", flush=True)
    print(f"written to {path} and {path.with_suffix('.md').name}")
    return FAILED if any(s["status"] == BROKEN for s in record["steps"].values()) else DONE


def _record(path: Path, device: str) -> dict[str, Any]:
    """What earlier calls found on this device, or an empty record.

    Raises UserError where the file that is there cannot be added to.
    """
    record: dict[str, Any] = {"steps": {}}
    if path.exists():
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            record["steps"].items()
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{path} holds no results of this script: move it away") from error
    return {**record, "device": device}


def _tried(step: Step, sizes: runs.Sizes) -> dict[str, Any]:
    began = time.perf_counter()
    result: dict[str, Any] = {"status": PASSED, "why": "", "figures": {}}
    try:
        result["figures"] = step.run(sizes, runs.Deadline())
    except runs.Skipped as reason:
        result.update(status=SKIPPED, why=str(reason))
    except runs.Failed as failure:
        result.update(status=BROKEN, why=str(failure), figures=failure.figures)
    except Exception as error:  # whatever fails here, the other steps still run
        result.update(status=BROKEN, why=one_line(error))
    versions = package_versions()
    return {
        **result,
        "seconds": round(time.perf_counter() - began, 1),
        "sizes": {name: size for name, size in sizes._asdict().items() if name != "train"},
        "versions": versions,
        "commit": git_commit(),
        "flags": os.environ.get("XLA_FLAGS", ""),
    }


def _keep(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    lines = [f"# Acceptance on {record['device']}", "", "| step | result | time |", "|---|---|---|"]
    for name, step in STEPS.items():
        if (found := record["steps"].get(name)) is not None:
            shown = _line(found).replace("|", "\\|")
            lines.append(f"| {name}: {step.about} | {shown} | {found['seconds']:.0f} s |")
    measured = record["steps"].get("engines", {"figures": {}})["figures"].get("rows", [])
    lines += _table(measured) if measured else []
    path.with_suffix(".md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _table(rows: list[dict[str, Any]]) -> list[str]:
    lines = ["", "| engine | environments | env steps/s | memory expected | measured |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        cells = ["not measured", "", ""]
        if "failed" not in row:
            used = [f"{row[name] / 1e9:.2f} GB" for name in ("predicted_bytes", "measured_bytes")]
            cells = [f"{row['env_steps_per_s']:,}", *used]
        lines.append(f"| {row['physics']} | {row['num_envs']:,} | {' | '.join(cells)} |")
    return lines


def _line(found: dict[str, Any]) -> str:
    summary = found["figures"].get("summary", "")
    return ": ".join(filter(None, (found["status"], found["why"] or summary)))


if __name__ == "__main__":
    sys.exit(main())
