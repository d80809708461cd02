"""What describes a run, as Markdown for TensorBoard's texts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxrl_hw.loggers import formats


def run_texts(
    rows: Iterable[tuple[str, str]], warnings: Sequence[str], settings: Mapping[str, Any]
) -> dict[str, str]:
    """The plan, its warnings below, and the settings as they stand in config.json."""
    notes = "".join(f"\n\nnote: {text}" for text in warnings)
    config = f"```\n{json.dumps(settings, indent=2)}\n```"
    return {"plan": _table(("plan", ""), rows) + notes, "config": config}


def sessions_text(records: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """A line for each session of sessions.jsonl."""
    heads = ("session", "began", "hardware", "environments", "iterations", "time", "ended")
    lines = (_session(i, record) for i, record in enumerate(records, start=1))
    return {"sessions": _table(heads, lines)}


def _session(number: int, record: Mapping[str, Any]) -> tuple[str, ...]:
    def text(name: str) -> str:
        return str(record.get(name, "-"))

    return (
        str(number),
        text("started")[:16].replace("T", " "),
        text("hardware"),
        text("num_envs"),
        f"{text('first_iteration')} to {text('last_iteration')}",
        formats.duration(record.get("seconds")),
        text("ended"),
    )


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, cells))} |" for cells in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
