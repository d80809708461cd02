"""summary.json: the figures of a run."""

from __future__ import annotations

import math
import shlex
from typing import Any

import numpy as np

from jaxrl_hw.checkpointing.description import EVALUATION
from jaxrl_hw.cli.report.changed_settings import changed_settings
from jaxrl_hw.cli.report.run_record import RunRecord
from jaxrl_hw.cli.report.time_spent import PARTS, time_spent
from jaxrl_hw.cli.run_summary import Summary
from jaxrl_hw.config.resolve import task_name

FORMAT = 1
"""Version of summary.json's layout."""
REWARD, TOTAL = "reward/", "reward/total"
LAST_SHARE = 0.1
"""Share of the rows, at the end, over which final figures are means."""


def summarize_run(record: RunRecord) -> dict[str, Any]:
    """What summary.json says of a run: plain values, None where the run's files do not say."""
    s, config = record.summary, record.config
    plan, spent = record.plan, time_spent(record)
    return {
        "format": FORMAT,
        "name": s.name,
        "folder": str(record.folder),
        "status": s.status,
        "why": s.why,
        "robot": s.robot,
        "task": task_name(config) if config else s.task,
        "algo": str(record.settings.get("algo", "")),
        "preset": str(record.settings.get("preset", "")),
        "seed": record.settings.get("seed"),
        "num_envs": s.num_envs,
        "goal_iteration": s.goal,
        "rows": len(record.rows),
        "damaged_lines": record.damaged,
        "just_begun": record.just_begun,
        "iterations": record.iterations,
        "env_steps": int(record.last("env_steps")) if record.rows or record.just_begun else None,
        "training_s": record.last("wall_s") or math.fsum(s["seconds"] or 0.0 for s in spent),
        "return": _return(record),
        "throughput": {
            name: _median(record.column(name)) for name in ("env_steps_per_s", "iterations_per_min")
        },
        "memory": {
            "predicted_bytes": plan.get("predicted_bytes"),
            "predicted_from": plan.get("predicted_from"),
            "budget_bytes": plan.get("budget_bytes"),
            "measured_bytes": plan.get("measured_bytes"),
            "peak_bytes": _most(record.column("memory_bytes")),
        },
        "sessions": spent,
        "time": {name: math.fsum(x[name] or 0.0 for x in spent) for name in (*PARTS, "away_s")},
        "profile": record.profile or None,
        "reward_terms": reward_terms(record),
        "evaluations": evaluations(record),
        "evaluation": record.evaluation or None,
        "changed_settings": [change._asdict() for change in changed_settings(record)],
        "versions": record.versions,
        "git_commit": record.git_commit or None,
        "command": s.command,
        "evaluate_command": _evaluate_command(s),
        "notes": list(record.notes),
    }


def final_mean(values: np.ndarray) -> float | None:
    """The mean of the last `LAST_SHARE` of the values, at least one; NaN left out."""
    known = values[len(values) - math.ceil(LAST_SHARE * len(values)) :]
    known = known[np.isfinite(known)]
    return float(known.mean()) if len(known) else None


def reward_terms(record: RunRecord) -> dict[str, float]:
    """The final mean of every reward term, per control step, the largest first."""
    names = [name for name in record.names if name.startswith(REWARD) and name != TOTAL]
    found = {name.removeprefix(REWARD): final_mean(record.column(name)) for name in names}
    known = {name: value for name, value in found.items() if value is not None}
    return dict(sorted(known.items(), key=lambda item: -abs(item[1])))


def evaluations(record: RunRecord) -> list[dict[str, Any]]:
    """The evaluations during training: iteration, env_steps, and their figures by name."""
    found = []
    for row in record.rows:
        figures = {
            k.removeprefix(EVALUATION): v for k, v in row.items() if k.startswith(EVALUATION)
        }
        if figures:
            found.append({name: row[name] for name in ("iteration", "env_steps")} | figures)
    return found


def _evaluate_command(run: Summary) -> str:
    """The command that evaluates the newest policy into a report, "" where there is no policy."""
    if not run.saved:
        return ""
    words = ["python", "-m", "jaxrl_hw.report", "--run-dir", str(run.folder)]
    words += ["--robot", run.robot_flag] if run.robot_flag else []
    words += ["--algo", run.algo_flag] if run.algo_flag else []
    return shlex.join([*words, "--evaluate"])


def _return(record: RunRecord) -> dict[str, Any]:
    """The mean return: last, final mean, highest, and where the highest was."""
    values = record.column("episode_return")
    if not np.isfinite(values).any():
        return {"last": None, "final": None, "best": None, "best_iteration": None}
    best = int(np.nanargmax(values))
    return {
        "last": record.last("episode_return"),
        "final": final_mean(values),
        "best": float(values[best]),
        "best_iteration": record.rows[best]["iteration"],
    }


def _median(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else None


def _most(values: np.ndarray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None
