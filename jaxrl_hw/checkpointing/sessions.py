"""The sessions of a run: those that ended, and the open one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from jaxrl_hw.checkpointing.lock import is_living, owner, read_lock, record_of
from jaxrl_hw.checkpointing.run_dir import RunDir

TRAINING, KILLED = "training", "killed"
"""The two states of a session that was not closed."""


@dataclass(frozen=True)
class Session:
    """One process's part of a run; what its record lacks is None or ""."""

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
    """Of training, without compilation."""
    compile_s: float | None
    save_blocked_s: float | None
    """Of `seconds`: how long training waited for saving."""
    ended: str


class OpenSession(NamedTuple):
    """What the lock file of a run says."""

    record: dict[str, Any]
    """Of the session; {} until it begins."""
    state: str
    """TRAINING or KILLED."""
    owner: str
    """`process 123 on host`"""


def open_session(run: RunDir) -> OpenSession | None:
    """The session that was not closed, None without one. Raises RunError."""
    found = read_lock(run.session_open)
    if found is None:
        return None
    state = TRAINING if is_living(found, run.session_open) else KILLED
    return OpenSession(record_of(found), state, owner(found))


def session_history(
    run: RunDir, opened: OpenSession | None, saved: int, trained: int
) -> list[Session]:
    """All sessions, oldest first. Raises OSError or ValueError where they cannot be read.

    opened: the session that was not closed.
    saved: iteration of the newest checkpoint; a killed session leaves nothing beyond it.
    trained: iteration of the last row of metrics.jsonl.
    """
    records = run.read_sessions()
    if opened is not None:
        last = saved if opened.state == KILLED else trained
        records = with_open(records, opened, last, opened.state)
    sessions = [_session(record) for record in records]
    # A killed session could not record its last iteration; the session after it shows it.
    for i, after in enumerate(sessions[1:]):
        if sessions[i].last_iteration is None and after.first_iteration is not None:
            sessions[i] = replace(sessions[i], last_iteration=after.first_iteration - 1)
    return sessions


def with_open(
    records: list[dict[str, Any]], opened: OpenSession, last_iteration: int, ended: str
) -> list[dict[str, Any]]:
    """The lines of sessions.jsonl with that of the open session, if it has begun and has none."""
    started = opened.record.get("started")
    # a session writes its line first, then removes the lock file
    closed = started is not None and bool(records) and records[-1].get("started") == started
    if not opened.record or closed:
        return records
    return [*records, {**opened.record, "last_iteration": last_iteration, "ended": ended}]


def _session(record: Mapping[str, Any]) -> Session:
    def count(name: str) -> int | None:
        return record[name] if type(record.get(name)) is int else None

    def number(name: str) -> float | None:
        return float(record[name]) if type(record.get(name)) in (int, float) else None

    texts = ("started", "hardware", "platform", "physics", "ended")
    return Session(
        **{name: str(record.get(name, "")) for name in texts},
        num_envs=count("num_envs"),
        first_iteration=count("first_iteration"),
        last_iteration=count("last_iteration"),
        seconds=number("seconds"),
        compile_s=number("compile_s"),
        save_blocked_s=number("save_blocked_s"),
    )
