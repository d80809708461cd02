"""What is known of a program on this machine, kept on disk between runs.

A record belongs to one configuration, one kind of device and one set of package versions. It holds
the compiler's figures by number of environments, the speed that was reached with each, and what
the process held beside them. Losing a record costs a compilation, nothing else: a damaged file
counts as none, and a cache folder that cannot be written is left alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.hardware.xla import default_cache_dir

_FORMAT = 1


class Record(NamedTuple):
    """One program's figures; empty where nothing is known."""

    points: dict[int, dict[str, int]]
    """Bytes by item, by number of environments: the compiler's own figures."""
    rates: dict[int, float]
    """Control steps per second over all environments, the best that was measured with each
    number."""
    resident: int | None
    """Bytes that a run's process held beside the items, a mean over runs in which a newer one
    counts half; None before a run has told."""
    compiling: int | None
    """Peak of the process while it compiled, bytes; None likewise."""


EMPTY = Record({}, {}, None, None)


def recall(program: Mapping[str, Any]) -> Record:
    """What is known of a program; `program` is whatever tells it from others, as plain values."""
    try:
        record = json.loads(_path(program).read_text(encoding="utf-8"))
        if record["format"] != _FORMAT or record["program"] != _plain(program):
            return EMPTY
        points = {
            int(n): {str(k): int(v) for k, v in p.items()} for n, p in record["points"].items()
        }
        rates = {int(n): float(rate) for n, rate in record["rates"].items()}
        rest = (record[name] for name in ("resident", "compiling"))
        return Record(points, rates, *(None if v is None else int(v) for v in rest))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return EMPTY


def remember(
    program: Mapping[str, Any],
    *,
    points: Mapping[int, Mapping[str, int]] | None = None,
    rates: Mapping[int, float] | None = None,
    resident: int | None = None,
    compiling: int | None = None,
) -> Record:
    """Add to what is known.

    A newer point takes an older one's place, of rates the best stays. What a process holds beside
    the items differs between runs of the same program by 10 MB either way: one run is not believed.
    """
    known = recall(program)
    merged = {**known.rates}
    for n, rate in (rates or {}).items():
        merged[n] = max(rate, merged.get(n, 0.0))
    record = Record(
        {**known.points, **{n: dict(p) for n, p in (points or {}).items()}},
        merged,
        _midway(known.resident, resident),
        max(known.compiling or 0, compiling or 0) or None,  # less where a cache had the program
    )
    whole = {"format": _FORMAT, "program": _plain(program), **record._asdict()}
    with contextlib.suppress(OSError):
        _write(_path(program), json.dumps(whole))
    return record


def _midway(known: int | None, newer: int | None) -> int | None:
    """Between two figures; the one where the other is missing."""
    if known is None or newer is None:
        return known if newer is None else newer
    return (known + newer) // 2


def _path(program: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(_plain(program), sort_keys=True).encode()).hexdigest()
    return default_cache_dir().parent / "figures" / f"{digest[:24]}.json"


def _plain(program: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(program)))


def _write(path: Path, text: str) -> None:
    """Whole or not at all, whoever else writes at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        os.unlink(name)
        raise
