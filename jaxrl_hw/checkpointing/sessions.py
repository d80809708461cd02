"""The sessions of a run in order: those that ended, and the one that is open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxrl_hw.checkpointing import lock_file
from jaxrl_hw.checkpointing.lock import IDENTITY, is_living
from jaxrl_hw.checkpointing.run_dir import RunDir

TRAINING, KILLED = "training", "killed"
"""How a session stands that has not been closed."""


@dataclass(frozen=True)
class Session:
    """One process's part of a run; what its record does not say is None or ""."""

    started: str
    """ISO 8601, with the offset from UTC."""
    hardware: str
    platform: str
    physics: str
    num_envs: int | None
    first_iteration: int | None
    last_iteration: int | None
    """Below the first where no iteration was finished."""
    seconds: float | None
    """Of training, compilation not counted."""
    ended: str


class OpenSession(NamedTuple):
    """The note that a process leaves in the folder of the run it trains."""

    record: dict[str, Any]
    """What it says of the session; {} until that begins."""
    state: str
    """TRAINING or KILLED."""
    who: str
    """`process 123 on host`"""


def open_session(run: RunDir) -> OpenSession | None:
    """The session that has not been closed, None without one. Raises RunError."""
    found = lock_file.read(run.session_open)
    if found is None:
        return None
    record = {name: value for name, value in found.items() if name not in IDENTITY}
    who = f"process {found.get('pid', '?')} on {found.get('host', '?')}"
    state = TRAINING if is_living(found, run.session_open) else KILLED
    return OpenSession(record, state, who)


def chain(run: RunDir, opened: OpenSession | None, saved: int, trained: int) -> list[Session]:
    """All sessions, oldest first.

    Args:
      run: its folder.
      opened: the session that has not been closed.
      saved: iteration of the newest checkpoint, which is all that a killed session has left.
      trained: iteration of the last row of metrics.jsonl.

    Raises:
      OSError, ValueError: sessions.jsonl cannot be read.
    """
    records = run.read_sessions()
    if opened is not None and opened.record and not _is_closed(opened, records):
        last = saved if opened.state == KILLED else trained
        records.append({**opened.record, "last_iteration": last, "ended": opened.state})
    sessions = [_session(record) for record in records]
    # a killed session could not say how far it came; the one after it tells what was saved
    for i, after in enumerate(sessions[1:]):
        if sessions[i].last_iteration is None and after.first_iteration is not None:
            sessions[i] = replace(sessions[i], last_iteration=after.first_iteration - 1)
    return sessions


def closing_record(
    opened: OpenSession, records: list[dict[str, Any]], saved: int
) -> dict[str, Any] | None:
    """The line of sessions.jsonl for an open session in a copy of the run; None where it has one,
    or has not begun.

    saved: iteration of the newest checkpoint in the copy.
    """
    if not opened.record or _is_closed(opened, records):
        return None
    ended = KILLED if opened.state == KILLED else "packed"
    return {**opened.record, "last_iteration": saved, "ended": ended}


def _is_closed(opened: OpenSession, records: list[dict[str, Any]]) -> bool:
    """Whether its line is there already: it is written before the note goes."""
    started = opened.record.get("started")
    return started is not None and any(record.get("started") == started for record in records[-1:])


def _session(record: Mapping[str, Any]) -> Session:
    def text(name: str) -> str:
        return str(record.get(name, ""))

    def number(name: str) -> int | None:
        value = record.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    seconds = record.get("seconds")
    return Session(
        started=text("started"),
        hardware=text("hardware"),
        platform=text("platform"),
        physics=text("physics"),
        num_envs=number("num_envs"),
        first_iteration=number("first_iteration"),
        last_iteration=number("last_iteration"),
        seconds=float(seconds) if isinstance(seconds, (int, float)) else None,
        ended=text("ended"),
    )
