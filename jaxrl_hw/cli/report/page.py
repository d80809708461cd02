"""The report's files: one page, the same as Markdown, figures, and data."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2

import jaxrl_hw
from jaxrl_hw.checkpointing.files import disk_errors, write_bytes, write_json
from jaxrl_hw.cli.report.comparison import Comparison
from jaxrl_hw.cli.report.drawing import Figure
from jaxrl_hw.cli.report.motion import Motion
from jaxrl_hw.cli.report.run_record import RunRecord, is_number
from jaxrl_hw.cli.report.statistics import ALPHA, FEWEST_FOR_IQM
from jaxrl_hw.loggers import formats
from jaxrl_hw.loggers.jsonl import jsonable

_TEMPLATES = Path(__file__).parent / "templates"


class Drawn(NamedTuple):
    """A figure as the templates take it."""

    name: str
    text: str
    data: str
    """The PNG as a data URI."""


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    title: str
    record: RunRecord
    found: dict[str, Any]
    """Of `summary.summarize_run`."""
    figures: dict[str, list[Figure]]
    """By section: learning, evaluations, comparison, rewards, time, memory, metrics."""
    comparison: Comparison | None
    motion: Motion
    outcomes: Sequence[Mapping[str, Any]] = ()
    """Of an experiment, per run: name, status, log, why."""


def write_report(report: Report, out: Path) -> Path:
    """Write every file of a report into a folder that exists; returns the page's path.

    Raises:
      RunError: the disk refuses.
    """
    with disk_errors(f"write {out / 'figures'}"):
        (out / "figures").mkdir(exist_ok=True)
    drawn = {name: [_draw(x, out) for x in figures] for name, figures in report.figures.items()}
    summary = dict(report.found)
    if report.comparison is not None:
        parts = {k: v for k, v in vars(report.comparison).items() if k != "curves"}
        summary["comparison"] = parts
    if report.outcomes:
        summary["experiment"] = {"name": report.title, "runs": list(report.outcomes)}
    write_json(out / "summary.json", jsonable(summary))
    write_bytes(out / "metrics.csv", metrics_csv(report.record).encode())
    values = _values(report, drawn, out)
    for name in ("report.md", "report.html"):
        write_bytes(out / name, _environment().get_template(f"{name}.j2").render(values).encode())
    return out / "report.html"


def metrics_csv(record: RunRecord) -> str:
    """The whole rows of metrics.jsonl as CSV; a cell is empty where a row has no such value."""
    text = io.StringIO()
    writer = csv.DictWriter(text, record.names, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(record.rows)
    return text.getvalue()


def _draw(figure: Figure, out: Path) -> Drawn:
    data = {suffix: figure.save(suffix) for suffix in ("png", "pdf")}
    for suffix, content in data.items():
        write_bytes(out / "figures" / f"{figure.name}.{suffix}", content)
    encoded = base64.b64encode(data["png"]).decode()
    return Drawn(figure.name, figure.text, f"data:image/png;base64,{encoded}")


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=lambda name: str(name).endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "count": lambda value: formats.count(value) if is_number(value) else "-",
        "figure": _figure,
        "size": formats.size,
        "duration": formats.duration,
        "plain": _plain,
        "cell": lambda value: _plain(value).replace("|", "\\|").replace("\n", " "),
    }
    return made


def _values(report: Report, drawn: dict[str, list[Drawn]], out: Path) -> dict[str, Any]:
    found, comparison, film = report.found, report.comparison, report.motion.film_file
    return {
        "title": report.title,
        "outcomes": report.outcomes,
        "run": found,
        "notes": _notes(report),
        "figures": drawn,
        "comparison": asdict(comparison) if comparison else None,
        "alpha": ALPHA,
        "fewest_for_iqm": FEWEST_FOR_IQM,
        "motion": report.motion,
        "film_link": quote(Path(os.path.relpath(film, out)).as_posix()) if film else "",
        **_replay_values(report.motion.replay),
        "version": jaxrl_hw.__version__,
    }


def _notes(report: Report) -> list[str]:
    """What is damaged or not shown. A reason that is given already is not given again."""
    known = report.found["notes"]
    reasons = [reason for reason in (report.found["why"], *known) if reason]
    missing = list(report.motion.notes)
    for reason in reasons:
        missing = [note.removesuffix(f": {reason}") for note in missing]
    return [*known, *missing]


def _replay_values(replay: Mapping[str, Any]) -> dict[str, str]:
    return {
        "replay_data": json.dumps(replay).replace("<", "\\u003c") if replay else "",
        "replay_script": (_TEMPLATES / "replay.js").read_text(encoding="utf-8"),
        "style": (_TEMPLATES / "style.css").read_text(encoding="utf-8"),
    }


def replay_page(replay: Mapping[str, Any], title: str) -> str:
    """A page of its own, without a network, that shows what `evaluation.replay.replay_of` gives."""
    values = {"title": title, **_replay_values(replay)}
    return _environment().get_template("replay.html.j2").render(values)


def _figure(value: Any) -> str:
    """A whole number, or a number of four significant digits; "-" for anything else."""
    if type(value) is int:
        return formats.count(value)
    return formats.figure(value) if type(value) is float else "-"


def _plain(value: Any) -> str:
    """A value of a setting, or of another field, as people read it."""
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return "" if value is None else str(value)
