"""Fill a folder of the zoo from a finished run: make_zoo.py --run-dir DIR --name NAME

Writes policy.npz, config.json without this machine's paths, metrics.jsonl thinned to a learning
curve, evaluation.json as `python -m jaxrl_hw.evaluate --suite robust` measures the written policy,
and origin.json. A folder that is there already is replaced when all of that has succeeded.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxrl_hw.checkpointing.files import read_json, write_bytes, write_json
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.cli.arguments import OneLineParser, whole_number
from jaxrl_hw.cli.command import DONE, run_command
from jaxrl_hw.cli.trained_policy import open_run
from jaxrl_hw.cli.tyro_rules import NO_STAGES
from jaxrl_hw.config import validation
from jaxrl_hw.config.curriculum import Stage, format_stage
from jaxrl_hw.config.fields import differences, flag
from jaxrl_hw.config.goal import goal_iteration
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError, UserError
from jaxrl_hw.loggers.jsonl import read_rows
from jaxrl_hw.planning.continuation import RESUME_WORDS
from jaxrl_hw.policies import zoo
from jaxrl_hw.policies.from_state import portable
from jaxrl_hw.policies.io import save_policy
from jaxrl_hw.policies.metadata import portable_config
from jaxrl_hw.training.run import Run, saved_config

ROWS = 200
LARGEST = 1_000_000  # bytes of a policy.npz
COLUMNS = (
    "iteration",
    "env_steps",
    "wall_s",
    "env_steps_per_s",
    "episode_return",
    "episode_length",
    "reward/total",
    "tracking/velocity_error",
    "tracking/yaw_error",
    "upright_share",
    "falls_per_min",
    "foot_clearance",
    "power",
    "action_std",
    "kl",
    "lr",
)
NOT_LEARNED_FROM = {
    *("robot", "preset", "task", "algo", "run_dir", "resume", "time_limit", "init_from"),
    *("save_every", "keep", "keep_every", "mirror", "mem_fraction", "threads", "tensorboard"),
    *("override_config", "early_stop", "deterministic", "log_format", "quiet"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Exit code 0: the folder is complete; 2: bad input; 1: the evaluation or the disk fails."""

    def body() -> int:
        asked = _parse(argv)
        run = open_run(asked.run_dir, asked.iteration)
        folder = fill(run, Path(asked.root) / asked.name, asked.seconds)
        size = sum(path.stat().st_size for path in folder.iterdir())
        print(f"{folder}: iteration {run.iteration:,}, {size / 1e3:.0f} kB")
        return DONE

    return run_command(body)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = OneLineParser(prog="make_zoo.py", description=__doc__)
    parser.add_argument("--run-dir", required=True, metavar="DIR", help="folder of the run")
    parser.add_argument("--name", required=True, help="of the policy in the zoo, as in zoo:NAME")
    parser.add_argument("--iteration", type=whole_number, metavar="K", help="default: the newest")
    parser.add_argument("--root", default=str(zoo.ROOT), help="default: the package's zoo")
    parser.add_argument("--seconds", type=whole_number, default=10, help="of the evaluation")
    asked = parser.parse(list(sys.argv[1:] if argv is None else argv))
    if not asked.name.isidentifier():
        raise UserError(f'--name must be letters, digits and "_", got "{asked.name}"')
    return asked


def fill(run: Run, folder: Path, seconds: int = 10) -> Path:
    """Put a run's policy and what is known of it into a folder of the zoo.

    Raises:
      RunError: the policy is too large to be shipped, or the evaluation fails.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    stage = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        policy = portable(run.config, run.state)
        save_policy(policy, stage / "policy.npz")
        if (size := (stage / "policy.npz").stat().st_size) > LARGEST:
            raise RunError(f"policy.npz has {size:,} bytes, at most {LARGEST:,} are shipped")
        record = read_json(RunDir(run.folder).config_json, "restore it") or {}
        record["config"] = validation.to_dict(portable_config(run.config))
        write_json(stage / "config.json", record)
        rows = thinned(read_rows(RunDir(run.folder).metrics_jsonl), run.iteration)
        text = "".join(json.dumps(row) + "\n" for row in rows)
        write_bytes(stage / "metrics.jsonl", text.encode())
        write_json(stage / "origin.json", origin(run, policy.meta["env_steps"], rows[-1], record))
        _evaluate(stage, policy.meta["task"], seconds)
        stage.chmod(0o755)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(stage, folder)
    finally:
        shutil.rmtree(stage, ignore_errors=True)
    return folder


def thinned(rows: list[dict[str, Any]], last: int) -> list[dict[str, Any]]:
    """At most `ROWS` rows up to iteration `last`, evenly spaced, the last among them."""
    rows = [row for row in rows if row["iteration"] <= last]
    step = -(-len(rows) // ROWS)
    kept = rows[::-1][::step][::-1]
    return [{name: _short(row[name]) for name in COLUMNS if name in row} for row in kept]


def _short(value: Any) -> Any:
    return float(f"{value:.5g}") if isinstance(value, float) else value


def origin(
    run: Run, env_steps: int, last: dict[str, Any], record: dict[str, Any]
) -> dict[str, Any]:
    """How the policy came about, for its origin.json."""
    sessions = RunDir(run.folder).read_sessions()
    earlier = list(stages_before(run.config))
    return {
        "commands": [command(c, n) for c, n, _ in earlier] + [command(run.config, run.iteration)],
        "seed": run.config.seed,
        "iterations": run.iteration,
        "env_steps": env_steps,
        "minutes": round((sum(s for _, _, s in earlier) + last["wall_s"]) / 60, 1),
        "hardware": list(dict.fromkeys(s["hardware"] for s in sessions if "hardware" in s)),
        "versions": record.get("versions", {}),
        "git_commit": record.get("git_commit"),
    }


def stages_before(config: Config) -> Iterator[tuple[Config, int, float]]:
    """Of a run that `--resume PATH` started: the config, the iterations and the seconds of each run
    before it, the first one first.

    Raises:
      RunError: the checkpoint that it started from is missing.
    """
    if config.resume in RESUME_WORDS:
        return
    checkpoint = Path(config.resume)
    folder = next((p for p in (checkpoint, *checkpoint.parents[:2]) if is_run(p)), None)
    if folder is None or not checkpoint.name.isdigit():
        raise RunError(f"cannot say what came before: {checkpoint} is no checkpoint of a run")
    source, iterations = saved_config(folder), int(checkpoint.name)
    rows = read_rows(RunDir(folder).metrics_jsonl)
    yield from stages_before(source)
    yield source, iterations, rows[iterations - rows[0]["iteration"]]["wall_s"]


def is_run(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def command(config: Config, iterations: int) -> str:
    """The command line that trains this policy again, from the preset and what differs from it."""
    base = preset_config(config.robot, config.preset, config.task, config.algo)
    words = ["python -m jaxrl_hw.train", f"--robot {config.robot}"]
    words += [
        f"--{name} {getattr(config, name)}"
        for name in ("preset", "task", "algo")
        if getattr(config, name) != getattr(Config(), name)
    ]
    if config.init_from:
        known = config.init_from.startswith("zoo:")
        words.append(f"--init-from {config.init_from if known else 'ANOTHER_POLICY'}")
    now = validation.to_dict(config)
    if config.num_envs == "auto" or goal_iteration(config) != iterations:  # it ended elsewhere
        now |= {"iterations": iterations, "timesteps": base.timesteps}
    changed = differences(validation.to_dict(base), now, NOT_LEARNED_FROM)
    words += [_flag(key, value) for key, _, value in changed]
    return " ".join(words)


def _flag(key: str, value: Any) -> str:
    name = flag(key)
    if key == "curriculum":
        words = [shlex.quote(format_stage(Stage(**stage))) for stage in value] or [NO_STAGES]
        return f"{name} {' '.join(words)}"
    if isinstance(value, bool):
        head, _, tail = name.removeprefix("--").rpartition(".")
        off = f"--{head}.no-{tail}" if head else f"--no-{tail}"
        return name if value else off
    if isinstance(value, list):
        return f"{name} {' '.join(map(str, value))}"
    return f"{name} {value}"


def _evaluate(stage: Path, task: str, seconds: int) -> None:
    """Measure the very file that is shipped, so that anyone can measure it again."""
    words = [sys.executable, "-m", "jaxrl_hw.evaluate", "--policy", str(stage / "policy.npz")]
    words += ["--seconds", str(seconds), "--json", str(stage / "evaluation.json")]
    words += ["--suite", "robust"] if task == "joystick" else []
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"the evaluation failed: {done.stderr.strip() or done.returncode}")


if __name__ == "__main__":
    sys.exit(main())
