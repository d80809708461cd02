"""Measurements of a program on this machine, kept on disk between runs.

A measurement belongs to one configuration, one kind of device and one set of package versions. It
holds the compiler's figures and the speed by number of environments, and what the process held
beside the arrays. Losing one costs a compilation, nothing else: a damaged file counts as none, and
a cache folder that cannot be written is left alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jaxrl_hw.types.process import cache_folder

_FORMAT = 2


class Measurement(NamedTuple):
    """One program's figures; empty where nothing is known."""

    points: dict[int, dict[str, int]]
    """The compiler's figures: bytes by item, by number of environments."""
    rates: dict[int, float]
    """Control steps per second over all environments, the best by number of environments."""
    resident: int | None
    """Bytes that a run's process held beside the items: a mean in which the newest run counts half.
    None before the first run."""
    compiling: int | None
    """Peak of the process while it compiled the halves of its step one after the other, bytes; None
    before the first such run."""
    lowered: dict[int, str]
    """Hash of the lowered program by number of environments."""
    compile_s: float | None = None
    """Seconds that a session took to compile it, of the last one."""


EMPTY = Measurement({}, {}, None, None, {})


def load(program: Mapping[str, Any]) -> Measurement:
    """What is known of a program. `program` holds the plain values that identify it."""
    try:
        record = json.loads(_path(program).read_text(encoding="utf-8"))
        if record["format"] != _FORMAT or record["program"] != _plain(program):
            return EMPTY
        points, rates, lowered = (
            {int(n): value for n, value in record[name].items()}
            for name in ("points", "rates", "lowered")
        )
        held, compiling, compile_s = (
            record.get(name) for name in ("resident", "compiling", "compile_s")
        )
        return Measurement(points, rates, held, compiling, lowered, compile_s)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return EMPTY


def store(
    program: Mapping[str, Any],
    *,
    points: Mapping[int, Mapping[str, int]] | None = None,
    rates: Mapping[int, float] | None = None,
    resident: int | None = None,
    compiling: int | None = None,
    lowered: Mapping[int, str] | None = None,
    compile_s: float | None = None,
) -> Measurement:
    """Add to what is known, and return all of it.

    A newer point replaces an older one; of rates the best stays. `resident` differs between runs of
    one program by 10 MB either way, so a mean is kept. A hash in `lowered` that contradicts the
    stored one shows that the program has changed: all earlier figures are discarded.
    """
    known, lowered = load(program), lowered or {}
    if any(known.lowered.get(n, found) != found for n, found in lowered.items()):
        known = EMPTY
    best = {n: max(rate, known.rates.get(n, 0.0)) for n, rate in (rates or {}).items()}
    if resident is not None and known.resident is not None:
        resident = (known.resident + resident) // 2
    merged = Measurement(
        {**known.points, **{n: dict(p) for n, p in (points or {}).items()}},
        {**known.rates, **best},
        known.resident if resident is None else resident,
        max(known.compiling or 0, compiling or 0) or None,  # lower with a warm compilation cache
        {**known.lowered, **lowered},
        known.compile_s if compile_s is None else compile_s,
    )
    whole = {"format": _FORMAT, "program": _plain(program), **merged._asdict()}
    with contextlib.suppress(OSError):
        _write(_path(program), json.dumps(whole))
    return merged


def _path(program: Mapping[str, Any]) -> Path:
    digest = hashlib.sha256(json.dumps(_plain(program), sort_keys=True).encode()).hexdigest()
    return cache_folder() / "measurements" / f"{digest[:24]}.json"


def _plain(program: Mapping[str, Any]) -> Any:
    return json.loads(json.dumps(dict(program)))


def _write(path: Path, text: str) -> None:
    """Whole or not at all, whoever else writes at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
