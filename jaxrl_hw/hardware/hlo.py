"""What a program that XLA has compiled for a GPU launches, read from its text (optimized HLO)."""

from __future__ import annotations

import re
from typing import NamedTuple

_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = .*? ([a-z][a-z\-]*)\(")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_BODY, _CONDITION = re.compile(r"body=%?([\w.\-]+)"), re.compile(r"condition=%?([\w.\-]+)")
_CALLED = re.compile(r"(?:to_apply|calls|called_computations=\{)=?%?([\w.\-]+)")
_BRANCHES = re.compile(r"branch_computations=\{([^}]*)\}")
_FREE = frozenset(
    (
        *("parameter", "constant", "get-tuple-element", "tuple", "bitcast", "opt-barrier"),
        *("after-all", "partition-id", "replica-id", "copy-done", "async-done"),
    )
)
"""Instructions that run nothing on the device."""


class Launches(NamedTuple):
    """Kernels and copies that an execution launches at most."""

    total: int
    waits: int
    """Loops whose end the host has to read from the device, counted once per trip."""


def launches(text: str, trips: int = 1) -> Launches:
    """The launches of a compiled program at most.

    text: of `jax.stages.Compiled.as_text()`.
    trips: of loops whose number of trips the compiler does not know (a solver's iterations).
    """
    computations, entry = _parsed(text)

    def count(name: str) -> Launches:
        total = waits = 0
        for line, kind in computations.get(name, ()):
            if kind == "while":
                known = _TRIPS.search(line)
                times = int(known[1]) if known else trips
                body, condition = count(_one(_BODY, line)), count(_one(_CONDITION, line))
                total += times * (body.total + condition.total)
                waits += times * (body.waits + (0 if known else 1))
            elif kind in ("call", "async-start") and _CALLED.search(line):
                inner = count(_one(_CALLED, line))
                total, waits = total + inner.total, waits + inner.waits
            elif kind == "conditional":
                branches = [count(one.strip(" %")) for one in _one(_BRANCHES, line).split(",")]
                total += 1 + max(branch.total for branch in branches)
                waits += max(branch.waits for branch in branches)
            elif kind not in _FREE:
                total += 1
        return Launches(total, waits)

    return count(entry)


def _parsed(text: str) -> tuple[dict[str, list[tuple[str, str]]], str]:
    """The instructions of each computation, as (line, opcode), and the name of the entry."""
    computations: dict[str, list[tuple[str, str]]] = {}
    entry = name = ""
    for line in text.splitlines():
        if head := _COMPUTATION.match(line):
            name = head[2]
            computations[name] = []
            entry = name if head[1] else entry
        elif name and (found := _INSTRUCTION.match(line)):
            computations[name].append((line, found[1]))
    return computations, entry


def _one(pattern: re.Pattern[str], line: str) -> str:
    found = pattern.search(line)
    return found[1] if found else ""
