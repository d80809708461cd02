"""Where the time of a run went, session by session."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import numpy as np

from jaxrl_hw.checkpointing.sessions import Session
from jaxrl_hw.cli.report.run_record import RunRecord

PARTS = {
    "compile_s": "compilation",
    "iterations_s": "iterations",
    "saving_s": "waiting for checkpoints",
    "other_s": "evaluations, logging",
}
"""What a session's time consists of, and what the parts are called."""


def time_spent(record: RunRecord) -> list[dict[str, Any]]:
    """Per session: number, started, hardware, physics, num_envs, first and last iteration, ended,
    `seconds` of training, the parts in `PARTS`, and `away_s` since the session before ended, s.

    What the files do not say is None. A session that was killed has no line of its own: then
    `seconds` is what its rows say.
    """
    found, before = list[dict[str, Any]](), None
    for number, session in enumerate(record.sessions, 1):
        iterations_s, rows_s = _of_rows(record, session)
        seconds = session.seconds if session.seconds is not None else rows_s
        saving = session.save_blocked_s
        known = None if seconds is None else seconds - (iterations_s or 0.0) - (saving or 0.0)
        found.append(
            {
                "number": number,
                "started": session.started,
                "hardware": session.hardware,
                "physics": session.physics,
                "num_envs": session.num_envs,
                "first_iteration": session.first_iteration,
                "last_iteration": session.last_iteration,
                "ended": session.ended,
                "seconds": seconds,
                "compile_s": session.compile_s,
                "iterations_s": iterations_s,
                "saving_s": saving,
                "other_s": None if known is None else max(0.0, known),
                "away_s": _away(before, session),
            }
        )
        before = session
    return found


def boundaries(record: RunRecord) -> list[tuple[float, float]]:
    """Where sessions after the first one began: (env steps, training time in s) that were done."""
    iterations, places = record.column("iteration"), []
    steps, wall = record.column("env_steps"), record.column("wall_s")
    for session in record.sessions[1:]:
        done = np.flatnonzero(iterations < (session.first_iteration or 0))
        if len(done) and len(done) < len(iterations):
            places.append((float(steps[done[-1]]), float(wall[done[-1]])))
    return places


def _of_rows(record: RunRecord, session: Session) -> tuple[float | None, float | None]:
    """Seconds in a session's iterations, and from the session's start to its last row."""
    if session.first_iteration is None or session.last_iteration is None:
        return None, None
    iterations, wall = record.column("iteration"), record.column("wall_s")
    here = (iterations >= session.first_iteration) & (iterations <= session.last_iteration)
    if not here.any():
        return None, None
    rates = record.column("iterations_per_min")[here]
    spent = float((60.0 / rates[rates > 0]).sum())
    before = wall[iterations < session.first_iteration]
    start, end = (before[-1] if len(before) else 0.0), wall[here][-1]
    return spent, float(end - start) if np.isfinite(end - start) else None


def _away(before: Session | None, session: Session) -> float | None:
    """Seconds between the end of one session's training and the begin of the next compilation."""
    if before is None or before.seconds is None:
        return None
    try:
        began = [datetime.strptime(s.started, "%Y-%m-%dT%H:%M:%S%z") for s in (before, session)]
    except ValueError:
        return None
    apart = (began[1] - began[0]).total_seconds()
    return max(0.0, apart - before.seconds - (session.compile_s or 0.0))
