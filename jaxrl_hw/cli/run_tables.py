"""Tables of runs: all runs of a folder, or the sessions and checkpoints of one run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from jaxrl_hw.checkpointing.sessions import TRAINING, Session
from jaxrl_hw.checkpointing.store import newest_checkpoint
from jaxrl_hw.cli.run_summary import DAMAGED, DONE, READY, Summary, disk_size
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.terminal import make_table

_LOOK: dict[str, Any] = {"box": None, "padding": (0, 2, 0, 0), "header_style": "bold"}
_BARS = (20, 10)
"""Widths of the bar of a session, the widest that fits."""
_STYLES = {READY: "green", TRAINING: "cyan", DONE: "", DAMAGED: "red"}


def runs_view(runs: Sequence[Summary], console: Console) -> RenderableType:
    """All runs of a folder: a row each, or a few lines each on a narrow console."""
    table = _runs_table(runs)
    return table if _fits(table, console) else Group(*map(_card, runs))


def run_view(run: Summary, console: Console) -> RenderableType:
    """One run: its sessions, then its checkpoints."""
    parts: list[RenderableType] = []
    if run.sessions:
        tables = (_sessions_table(run, bar) for bar in _BARS)
        parts += ["", next((t for t in tables if _fits(t, console)), _sessions_table(run, 0))]
    if run.checkpoints:
        parts += ["", _checkpoints_table(run)]
    return Group(*parts, "")


def _runs_table(runs: Sequence[Summary]) -> Table:
    figures = (">iterations", "last session", "ended", ">size", ">best return")
    table = make_table("run", "robot", *figures, "continues", **_LOOK)
    for run in runs:
        table.add_row(Text(run.name), *map(Text, _facts(run)), _verdict(run))
    return table


def _facts(run: Summary) -> list[str]:
    """Robot, iterations, begin and end of the last session, size, best return."""
    last = run.sessions[-1] if run.sessions else None
    session = [_local_time(last.started), _ended(last.ended)] if last else ["-", "-"]
    best = formats.figure(run.best.episode_return if run.best else None)
    return [run.robot or "?", progress(run), *session, formats.size(run.bytes), best]


def progress(run: Summary) -> str:
    """`20 of 40`"""
    return f"{formats.count(run.done)} of {formats.count(run.goal)}"


def _verdict(run: Summary) -> Text:
    """Whether a run can continue, and if not, why."""
    text = {READY: "yes", DAMAGED: "damaged"}.get(run.status, "no")
    text += f"{':' if run.status == DAMAGED else ','} {run.why}" if run.why else ""
    return Text(text, style=_STYLES.get(run.status, "yellow"))


def _card(run: Summary) -> Text:
    robot, done, began, ended, size, best = _facts(run)
    facts = f"{robot}, {done}, best return {best}, {size}"
    head = f"  {facts}\n  last session {began} {ended}; continues: "
    return Text.assemble((f"{run.name}\n", "bold"), head, _verdict(run))


def _sessions_table(run: Summary, bar: int) -> Table:
    """A run's sessions, each with a bar of `bar` characters for its part of the iterations."""
    columns = (">#", "began", "hardware", ">envs", ">iterations", ">time", "ended")
    table = make_table(*columns, **_LOOK)
    end = max([run.goal or 0, *(session.last_iteration or 0 for session in run.sessions)])
    if bar:
        table.add_column(f"1 to {formats.count(end)}", no_wrap=True)
    for number, session in enumerate(run.sessions, start=1):
        engine = f", {session.physics}" if session.physics else ""
        table.add_row(
            str(number),
            Text(_local_time(session.started)),
            Text(f"{session.hardware or '-'}{engine}"),
            formats.count(session.num_envs),
            _span(session),
            formats.duration(session.seconds),
            Text(_ended(session.ended)),
            *([Text(_bar(session, end, bar))] if bar else []),
        )
    return table


def _checkpoints_table(run: Summary) -> Table:
    evaluated = any(save.evaluation for save in run.checkpoints)
    figures = (">fell", ">pushed", ">error") if evaluated else ()
    table = make_table(">checkpoint", ">return", *figures, ">size", "", **_LOOK)
    newest, best = newest_checkpoint(run.checkpoints), run.best
    for save in run.checkpoints:
        marks = [word for word, it in (("newest", newest), ("best", best)) if it is save]
        marks += [] if save.is_exact else ["without the replay"]
        remark = f"damaged: {save.problem}" if save.problem else ", ".join(marks)
        table.add_row(
            formats.count(save.iteration),
            formats.figure(save.episode_return),
            *(_evaluation(save.evaluation or {}) if evaluated else ()),
            formats.size(disk_size(save.folder)),
            Text(remark, style="red" if save.problem else ""),
        )
    return table


def _evaluation(figures: Mapping[str, float | None]) -> list[str]:
    """Robots that fell, without and with a push, and the velocity error."""
    falls = [formats.count(figures.get(name)) for name in ("falls", "pushed_falls")]
    return [*falls, formats.figure(figures.get("velocity_error"))]


def _fits(table: Table, console: Console) -> bool:
    options = console.options.update(max_width=10_000)
    return console.measure(table, options=options).maximum <= console.width


def _local_time(started: str) -> str:
    """`2026-11-21 08:50` of an ISO time, in the time zone of its machine."""
    return started[:16].replace("T", " ") or "-"


def _ended(word: str) -> str:
    return "in training" if word == TRAINING else word or "-"


def _span(session: Session) -> str:
    first, last = session.first_iteration, session.last_iteration
    if first is None or (last is not None and last < first):
        return "none"
    return f"{formats.count(first)} to {formats.count(last)}"


def _bar(session: Session, end: int, width: int) -> str:
    """ASCII, for terminals and logs of every kind."""
    first, last = session.first_iteration, session.last_iteration
    if first is None or last is None or not 1 <= first <= last <= end:
        return "." * width
    begin = (first - 1) * width // end
    length = max(1, last * width // end - begin)
    return ("." * begin + "=" * length).ljust(width, ".")
