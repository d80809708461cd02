"""All that the files of a run say. What is damaged is left out and named, never an error."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeGuard

import numpy as np

from jaxrl_hw.checkpointing.files import read_json
from jaxrl_hw.checkpointing.run_dir import RunDir
from jaxrl_hw.checkpointing.sessions import Session
from jaxrl_hw.cli.run_summary import Summary, summarize
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
    notes: tuple[str, ...] = ()
    """What could not be read."""

    @property
    def name(self) -> str:
        return self.summary.name

    @property
    def sessions(self) -> list[Session]:
        return self.summary.sessions

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
    run, notes = RunDir(folder), list[str]()

    def tried(path: Path) -> dict[str, Any]:
        try:
            found = read_json(path, "left out")
        except (UserError, RunError) as error:
            notes.append(one_line(error))
            return {}
        return found if isinstance(found, dict) else {}

    summary = summarize(folder, robot)
    rows, damaged = read_whole_rows(run.metrics_jsonl)
    settings, config = _settings(run, notes)
    about = tried(run.config_json)
    versions = about.get("versions")
    places = [place / "evaluation.json" for place in (results, run.path) if place]
    return RunRecord(
        folder,
        summary,
        rows,
        damaged,
        settings,
        config,
        plan=tried(run.plan_json),
        versions=versions if isinstance(versions, dict) else {},
        git_commit=str(about.get("git_commit") or ""),
        profile=tried(run.profile / "parts.json"),
        evaluation=next((x for path in places if _is_evaluation(x := tried(path))), {}),
        notes=tuple(dict.fromkeys(notes)),
    )


def read_whole_rows(path: Path) -> tuple[list[Row], int]:
    """The rows of a metrics.jsonl that are whole, and the number of lines that are not.

    A row has `iteration` and `env_steps`. Without a file there are none.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError:
        return [], 0
    rows, lines = [], [line for line in lines if line.strip()]
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            row = json.loads(line)
            if isinstance(row, dict) and all(
                type(row.get(name)) is int for name in ("iteration", "env_steps")
            ):
                rows.append(row)
    return rows, len(lines) - len(rows)


def _is_evaluation(found: dict[str, Any]) -> bool:
    """Whether a file's content is what `evaluate --json` writes."""
    rows, cases = found.get("rows"), found.get("cases", [])
    if not (isinstance(rows, list) and isinstance(cases, list)):
        return False
    return all(isinstance(one, dict) for one in (found.get("mean"), *rows, *cases))


def _settings(run: RunDir, notes: list[str]) -> tuple[dict[str, Any], Config | None]:
    try:
        settings = read_settings(run) or {}
    except (UserError, RunError, ValueError, TypeError, AttributeError) as error:
        notes.append(one_line(error))
        return {}, None
    try:
        return settings, config_from(settings, str(run.config_json)) if settings else None
    except UserError as error:
        notes.append(one_line(error))
        return settings, None
