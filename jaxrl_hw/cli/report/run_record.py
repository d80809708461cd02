"""All that the files of a run say. What is damaged is left out and named, never an error."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from jaxrl_hw.checkpointing.files import read_json
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.checkpointing.sessions import Session
from jaxrl_hw.cli.run_summary import DAMAGED, REFUSED, Summary, summarize
from jaxrl_hw.config.saved import config_from, read_settings
from jaxrl_hw.config.schema import Config
from jaxrl_hw.errors import RunError, UserError, one_line

Row = dict[str, Any]


@dataclass(frozen=True)
class RunRecord:
    """One run."""

    folder: Path
    summary: Summary
    rows: list[Row] = field(repr=False)
    """The whole rows of metrics.jsonl, oldest first."""
    damaged: int
    """Lines of metrics.jsonl that are left out."""
    settings: dict[str, Any] = field(repr=False)
    """In this version's terms; {} where config.json cannot be read."""
    config: Config | None = field(repr=False)
    """None where the settings cannot be used here, as for a robot that is not loaded."""
    plan: dict[str, Any] = field(repr=False)
    versions: dict[str, str] = field(repr=False)
    git_commit: str
    profile: dict[str, Any] = field(repr=False)
    """profile/parts.json; {} without one."""
    evaluation: dict[str, Any] = field(repr=False)
    """evaluation.json; {} without one."""
    metrics_problem: str = ""
    """What is wrong with metrics.jsonl."""
    notes: tuple[str, ...] = ()
    """What could not be read, a line for each file; without that which the status names."""

    @property
    def name(self) -> str:
        return self.summary.name

    @property
    def sessions(self) -> list[Session]:
        return self.summary.sessions

    @property
    def iterations(self) -> int:
        """Iterations done: by the rows, or where there are none by the other files."""
        return int(self.last("iteration")) or _done(self.summary)

    @property
    def just_begun(self) -> bool:
        """Whether no iteration is done, and not only none that can be read."""
        return not (self.iterations or self.metrics_problem)

    @property
    def problems(self) -> list[str]:
        """What could not be read or used, that which the status names included."""
        why = [self.summary.why] if self.summary.status in (DAMAGED, REFUSED) else []
        return [*why, *self.notes]

    @property
    def names(self) -> list[str]:
        """Keys of the rows, in order of first appearance."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    def column(self, name: str) -> np.ndarray:
        """A key's values [rows] float64; NaN where a row has none, or no number."""
        return column(self.rows, name)

    def last(self, name: str, default: float = 0.0) -> float:
        """A key's last value that is a number."""
        values = self.column(name)
        known = values[np.isfinite(values)]
        return float(known[-1]) if len(known) else default


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a JSON value is a number; true and false are none."""
    return type(value) in (int, float)


def column(rows: Sequence[Row], name: str) -> np.ndarray:
    """The values of a key in rows [rows] float64; NaN where a row has none, or no number."""
    values = (row.get(name) for row in rows)
    return np.array([x if is_number(x) else np.nan for x in values], float)


def read_record(folder: Path, robot: str = "", results: Path | None = None) -> RunRecord:
    """Read a run's folder.

    robot: one that `load_robot` has loaded for the command line.
    results: a folder that may hold its evaluation.json too, and goes before the run's own.
    """
    run, problems = RunDir(folder), _Problems()
    summary = summarize(folder, robot)
    rows, damaged = problems.lines(run.metrics_jsonl, is_row)
    if not rows and (done := _done(summary)):
        problems.note(run.metrics_jsonl, f"it has no row, though {done} iterations are done")
    problems.lines(run.sessions_jsonl)
    settings, config = _settings(run, problems)
    about = problems.values(run.config_json)
    versions = about.get("versions")
    places = [place / "evaluation.json" for place in (results, run.path) if place]
    return RunRecord(
        folder,
        summary,
        rows,
        damaged,
        settings,
        config,
        plan=problems.values(run.plan_json),
        versions=versions if isinstance(versions, dict) else {},
        git_commit=str(about.get("git_commit") or ""),
        profile=problems.values(run.profile / "parts.json"),
        evaluation=next((x for path in places if (x := problems.evaluation(path))), {}),
        metrics_problem=problems.by_file.get(run.metrics_jsonl, ""),
        # a file that the status names is not named again
        notes=tuple(x for path, x in problems.by_file.items() if path.name not in summary.why),
    )


def _done(summary: Summary) -> int:
    """Iterations that are done, by the checkpoints and the sessions."""
    return max([summary.saved, *(session.last_iteration or 0 for session in summary.sessions)])


class _Problems:
    """Reads files. What is wrong with one is kept, one line a file, and never an error."""

    def __init__(self) -> None:
        self.by_file: dict[Path, str] = {}

    def note(self, path: Path, problem: str) -> None:
        """Keep what is wrong with a file, unless something else already is."""
        self.by_file.setdefault(path, problem if path.name in problem else f"{path}: {problem}")

    def values(self, path: Path) -> Row:
        """The object in a JSON file; {} without one."""
        try:
            found = read_json(path, "left out")
        except (UserError, RunError) as error:
            self.note(path, one_line(error))
            return {}
        if not isinstance(found, dict | None):
            self.note(path, "it holds no values by name: left out")
        return found if isinstance(found, dict) else {}

    def evaluation(self, path: Path) -> Row:
        """What `evaluate --json` has written; {} without it."""
        found = self.values(path)
        if not found or _is_evaluation(found):
            return found
        self.note(path, "it holds no evaluation: left out")
        return {}

    def lines(self, path: Path, is_whole: Callable[[Row], bool] = bool) -> tuple[list[Row], int]:
        """The objects in a file of a JSON object a line, and the number of damaged lines."""
        try:
            lines = path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return [], 0
        except OSError as error:
            self.note(path, f"it cannot be read: {error.strerror}")
            return [], 0
        rows, lines = list[Row](), [line for line in lines if line.strip()]
        for line in lines:
            with contextlib.suppress(ValueError, RecursionError):
                row = json.loads(line)
                if isinstance(row, dict) and is_whole(row):
                    rows.append(row)
        if damaged := len(lines) - len(rows):
            none = "" if rows else ", and no other is there"
            text = f"{damaged} damaged line{'s' if damaged > 1 else ''} left out{none}"
            self.note(path, text)
        return rows, damaged


def is_row(row: Row) -> bool:
    """Whether a line of metrics.jsonl is one: it has `iteration` and `env_steps`."""
    return all(type(row.get(name)) is int for name in ("iteration", "env_steps"))


def _is_evaluation(found: dict[str, Any]) -> bool:
    """Whether a file's content is what `evaluate --json` writes."""
    rows, cases = found.get("rows"), found.get("cases", [])
    if not (isinstance(rows, list) and isinstance(cases, list)):
        return False
    return all(isinstance(one, dict) for one in (found.get("mean"), *rows, *cases))


def _settings(run: RunDir, problems: _Problems) -> tuple[dict[str, Any], Config | None]:
    try:
        settings = read_settings(run) or {}
    except (UserError, RunError, ValueError, TypeError, AttributeError) as error:
        problems.note(run.config_json, one_line(error))
        return {}, None
    try:
        return settings, config_from(settings, str(run.config_json)) if settings else None
    except UserError as error:
        problems.note(run.config_json, one_line(error))
        return settings, None
