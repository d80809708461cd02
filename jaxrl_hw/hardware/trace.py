"""Where the time of compiled programs goes, read from a trace of JAX's profiler."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

_MODULE = re.compile(r"^HloModule ([\w.\-]+)")
_NAMED = re.compile(r'^\s*(?:ROOT )?%?([\w.\-]+) = .*?metadata=\{[^}]*?op_name="([^"]*)"', re.M)
_COPY = re.compile(r"^Memcpy", re.I)
COPY = "memcpy"
"""The operation that stands for copies between host and device."""


class Operation(NamedTuple):
    """An operation of a compiled program."""

    module: str
    """The program, such as jit_update; empty for a copy."""
    name: str


class Trace(NamedTuple):
    """What a trace says."""

    busy: dict[Operation, float]
    """Seconds in each operation, summed over threads or streams; an operation that others run
    inside of counts without them."""
    covered: float
    """Seconds in which at least one operation ran."""
    length: float
    """Seconds from the first operation's start to the last one's end."""


def operation_names(text: str) -> dict[Operation, str]:
    """The path of JAX names, such as "jit(collecting)/while/body/physics/mul", by operation.

    text: of `jax.stages.Compiled.as_text()`.
    """
    module = _MODULE.match(text)
    name = module[1] if module else ""
    return {Operation(name, op): path for op, path in _NAMED.findall(text)}


def read_trace(folder: Path) -> Trace:
    """What the newest trace under a folder says.

    Raises:
      FileNotFoundError: there is none.
    """
    from jax.profiler import ProfileData

    found = sorted(folder.rglob("*.xplane.pb"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise FileNotFoundError(f"no trace in {folder}")
    return times(ProfileData.from_file(str(found[-1])).planes)


def times(planes: Iterable[Any]) -> Trace:
    """What the planes of a `jax.profiler.ProfileData` say.

    Where a device has planes of its own, its streams count, and the host's threads do not.
    """
    planes = list(planes)
    devices = [plane for plane in planes if plane.name.startswith("/device:")]
    busy: dict[Operation, float] = defaultdict(float)
    spans: list[tuple[float, float]] = []
    for plane in devices or planes:
        for line in plane.lines:
            if devices and not line.name.startswith(("Stream", "XLA Ops")):
                continue
            ran = sorted(_operations(line.events), key=lambda one: (one[1], -one[2]))
            spans += [(start, end) for _, start, end in ran]
            for operation, seconds in _own_times(ran):
                busy[operation] += seconds
    starts, ends = zip(*spans, strict=True) if spans else ((0.0,), (0.0,))
    return Trace(dict(busy), _covered(spans), max(ends) - min(starts))


def _operations(events: Iterable[Any]) -> Iterator[tuple[Operation, float, float]]:
    """Operations with start and end, s."""
    for event in events:
        start = event.start_ns / 1e9
        end = start + event.duration_ns / 1e9
        if _COPY.match(event.name):
            yield Operation("", COPY), start, end
            continue
        stats = dict(event.stats)
        # XLA marks an operation's end with an event of no length
        if "hlo_op" in stats and not event.name.startswith("end: "):
            yield Operation(str(stats.get("hlo_module", "")), str(stats["hlo_op"])), start, end


def _own_times(
    ran: Iterable[tuple[Operation, float, float]],
) -> Iterator[tuple[Operation, float]]:
    """Each operation's seconds without those that ran inside of it on the same thread.

    ran: in the order of their starts, the longest first.
    """
    outer: list[list[Any]] = []  # operation, end, seconds of its own
    for operation, start, end in ran:
        while outer and outer[-1][1] <= start:
            done = outer.pop()
            yield done[0], max(0.0, done[2])
        if outer:
            outer[-1][2] -= end - start
        outer.append([operation, end, end - start])
    for done in outer:
        yield done[0], max(0.0, done[2])


def _covered(spans: list[tuple[float, float]]) -> float:
    """Length of the union of intervals."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total
