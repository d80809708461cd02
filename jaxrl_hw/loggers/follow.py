"""The run of another process, shown here: it reads what `train --log-format json` prints."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from jaxrl_hw.loggers import formats


class Shown(Protocol):
    """Where it is shown; a `NotebookScreen` or a `Screen`."""

    def plan(self, rows: list[tuple[str, str]], /) -> None: ...
    def progress(self, row: Mapping[str, Any], /) -> None: ...
    def message(self, text: str, /) -> None: ...
    def warning(self, text: str, /) -> None: ...
    def finish(self, summary: str, /) -> None: ...
    def close(self) -> None: ...


def follow(lines: Iterable[str], shown: Shown) -> None:
    """Show each line as it comes, until there are no more; a line that is no event is a message."""
    for line in lines:
        event = _event(line)
        kind, text = event.pop("event"), str(event.get("text", ""))
        if kind == "plan":
            shown.plan(list(event["rows"].items()))
        elif kind == "progress":
            shown.progress(event)
        elif kind == "begin":
            shown.message(f"{text} ...")
        elif kind == "end":
            shown.message(f"{text}: {formats.duration(event['seconds'])}")
        elif kind == "warning":
            shown.warning(text)
        elif kind == "finish":
            shown.finish(text)
        elif text.strip():
            shown.message(text.rstrip())
    shown.close()


def _event(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    is_event = isinstance(found, dict) and isinstance(found.get("event"), str)
    return found if is_event else {"event": "message", "text": line}
