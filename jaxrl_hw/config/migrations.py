"""Settings that came and went: what an earlier version saved, as this one has it."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

BEFORE = {
    "joystick.self_collision": True,
    "joystick.standing_phase": 1.0,
    "joystick.standing_phase_speed": 0.0,
    "joystick.swing_exponent": 1.0,
    "joystick.recovery_speed": 0.0,
    "joystick.recovery_after_s": 2.0,
    "joystick.later": {"iteration": 0},
    "joystick.last": {"iteration": 0},
    "joystick.finish": {"iteration": 0},
    "joystick.finish.push_interval_s": 5.0,
    "joystick.reward.velocity_fine": 0.0,
    "ppo.weight_averaging": 0.0,
    "ppo.critic_warmup": 0,
    "joystick.reward.landing": 0.0,
    "joystick.reward.walking_power": 0.0,
}
"""What was so before there was a setting for it, whatever a preset says today."""
RENAMED = {
    "ppo.guide": "motion_prior",
    "ppo.value_first": "critic_warmup",
    "ppo.average": "weight_averaging",
    "joystick.standing_clock": "standing_phase",
    "joystick.standing_clock_speed": "standing_phase_speed",
    "joystick.last.standing_clock_speed": "standing_phase_speed",
    "joystick.finish.standing_clock_speed": "standing_phase_speed",
}
"""Old dotted keys, each with the name that it has now in its group."""
RETIRED = {"joystick.ease_in": 0, "joystick.ease_from": None, "joystick.pause_clock": False}
"""Settings that are gone, each with the value that did nothing; None: nothing by themselves."""


def as_now(saved: Mapping[str, Any]) -> dict[str, Any]:
    """A whole configuration of any earlier version without what is gone, with what came since.

    saved: settings as JSON has them, all of them: in a few written by hand a missing one means the
    preset's.
    """
    now: dict[str, Any] = copy.deepcopy(dict(saved))
    for group, _, name, renamed in _placed(RENAMED, now):
        if name in group:
            group[renamed] = group.pop(name)
    for group, _, name, _ in _placed(RETIRED, now):
        group.pop(name, None)
    for group, _, name, value in _placed(BEFORE, now):
        group.setdefault(name, value)
    return now


def lost(saved: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Settings that were at work and are gone, each with its value."""
    found = []
    for group, key, name, idle in _placed(RETIRED, saved):
        value = group.get(name, idle)
        if idle is not None and value != idle:
            found.append((key, value))
    return found


def _placed(
    table: Mapping[str, Any], whole: Mapping[str, Any]
) -> Iterator[tuple[Any, str, str, Any]]:
    """(group of settings, key, name in it, value) of each dotted key whose group is there."""
    for key, value in table.items():
        *path, name = key.split(".")
        group: Any = whole
        for step in path:
            group = group.get(step) if isinstance(group, Mapping) else None
        if isinstance(group, Mapping):
            yield group, key, name, value
