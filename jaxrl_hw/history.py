"""Settings that came and went: what an earlier version saved, as this one has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BEFORE = {
    "joystick.self_collision": True,
    "joystick.standing_clock": 1.0,
    "joystick.swing_exponent": 1.0,
}
"""What was so before there was a setting for it, whatever a preset says today."""
RETIRED = {"joystick.ease_in": 0, "joystick.ease_from": None, "joystick.pause_clock": False}
"""Settings that are gone, each with the value that did nothing; None: nothing by themselves."""


def as_now(saved: Mapping[str, Any]) -> dict[str, Any]:
    """A whole configuration of any earlier version without what is gone, with what came since.

    saved: settings as JSON has them, all of them: in a few written by hand a missing one means the
    preset's.
    """
    now = {name: dict(part) if isinstance(part, Mapping) else part for name, part in saved.items()}
    for group, name, _ in _split(RETIRED, now):
        now[group].pop(name, None)
    for group, name, value in _split(BEFORE, now):
        now[group].setdefault(name, value)
    return now


def lost(saved: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Settings that were at work and are gone, each with its value."""
    found = []
    for group, name, idle in _split(RETIRED, saved):
        value = saved[group].get(name, idle)
        if idle is not None and value != idle:
            found.append((f"{group}.{name}", value))
    return found


def _split(table: Mapping[str, Any], groups: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
    """(group, name, value) of each dotted key whose group is there."""
    parts = [(*key.split("."), value) for key, value in table.items()]
    return [(a, b, value) for a, b, value in parts if isinstance(groups.get(a), Mapping)]
