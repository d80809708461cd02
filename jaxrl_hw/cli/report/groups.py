"""Runs of the same settings, and what may be compared between them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxrl_hw.algos.registry import algorithm_entry, entries
from jaxrl_hw.cli.report.run_record import RunRecord
from jaxrl_hw.config import validation
from jaxrl_hw.config.fields import differences, settings_of
from jaxrl_hw.config.resolve import task_name
from jaxrl_hw.config.schema import Config

_LEARNING = ("num_envs", "physics", "devices", "precision", "deterministic")
"""Settings that a continued run may change and that change its numbers all the same."""
_LABEL_KEYS = 2
"""Settings that a group's label names at most."""


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed, and in what does not change their numbers."""

    label: str
    records: list[RunRecord]

    @property
    def robot(self) -> str:
        return self.records[0].summary.robot

    @property
    def names(self) -> list[str]:
        return [record.name for record in self.records]


def make_groups(records: Sequence[RunRecord]) -> list[Group]:
    """The runs by their settings, in the order given. A run whose settings cannot be used here is
    a group of its own."""
    found: dict[str, list[RunRecord]] = {}
    for record in records:
        settings = _learning_settings(record)
        key = json.dumps(settings, sort_keys=True) if settings else str(record.folder.absolute())
        found.setdefault(key, []).append(record)
    members = list(found.values())
    return [Group(label, runs) for label, runs in zip(_labels(members), members, strict=True)]


def why_not_rewards(a: RunRecord, b: RunRecord) -> str:
    """Why returns of two runs cannot be compared; "" where they can: it takes the same robot, and
    the same task with the same settings over the whole run."""
    if reason := why_not_task(a, b):
        return reason
    assert a.config is not None
    assert b.config is not None
    changed = differences(validation.to_dict(a.config), validation.to_dict(b.config))
    parts = (f"{task_name(a.config)}.", f"{a.config.robot}.", "curriculum")
    keys = [key for key, _, _ in changed if key.startswith(parts)]
    return f"their tasks differ: {', '.join(keys[:3])}" if keys else ""


def why_not_task(a: RunRecord, b: RunRecord) -> str:
    """Why evaluations of two runs cannot be compared; "" for those of one robot and task."""
    if a.config is None or b.config is None:
        name = a.name if a.config is None else b.name
        return f"the settings of {name} cannot be used here"
    if a.config.robot != b.config.robot:
        return f"the robots differ: {a.config.robot} and {b.config.robot}"
    tasks = [task_name(a.config), task_name(b.config)]
    return "" if tasks[0] == tasks[1] else f"the tasks differ: {tasks[0]} and {tasks[1]}"


def why_not_hardware(a: RunRecord, b: RunRecord) -> str:
    """Why speed and memory of two runs cannot be compared; "" for those on equal hardware."""
    names = [
        " and ".join(sorted({s.hardware for s in run.sessions})) or "unknown" for run in (a, b)
    ]
    return "" if names[0] == names[1] else f"the hardware differs: {names[0]}; {names[1]}"


def _learning_settings(record: RunRecord) -> dict[str, Any]:
    """The settings that make a run's numbers, but for its seed; {} where they cannot be used."""
    if record.config is None:
        return {}
    known = settings_of(type(record.config))
    free = {key for key, one in known.items() if one.about.get("resume") and key not in _LEARNING}
    idle = entries().keys() - {_algorithm(record.config)}
    whole = validation.to_dict(record.config)
    return {key: value for key, value in whole.items() if key not in free | idle | {"seed"}}


def _labels(groups: Sequence[Sequence[RunRecord]]) -> list[str]:
    """What each group is called: its robot, and the settings in which it differs from the first."""
    firsts, labels = [runs[0] for runs in groups], list[str]()
    for record in firsts:
        label = record.summary.robot or record.name
        if changed := _changed(firsts, record):
            texts = [f"{key}={_short(new)}" for key, new in changed[:_LABEL_KEYS]]
            more = len(changed) - len(texts)
            label = ", ".join([label, *texts, *([f"{more} more"] if more else [])])
        labels.append(label if label not in labels else f"{label} ({record.name})")
    return labels


def _changed(firsts: Sequence[RunRecord], record: RunRecord) -> list[tuple[str, Any]]:
    """The settings in which a run differs from the first one, if that is of the same robot.

    An algorithm has settings of its own: they are compared with the first run of the algorithm.
    """
    first, config = firsts[0], record.config
    if config is None or first.config is None or config.robot != first.config.robot:
        return []
    name, settings = _algorithm(config), _learning_settings(record)
    peer = next(x for x in firsts if x.config and _of(x.config) == _of(config))
    no_effect = (*entries(), *algorithm_entry(config.algo).ignores)
    general = differences(_learning_settings(first), settings, no_effect)
    own = differences({name: _learning_settings(peer)[name]}, {name: settings[name]})
    return [(key, new) for key, _, new in (*general, *own)]


def _of(config: Config) -> tuple[str, str]:
    """A config's robot and algorithm."""
    return config.robot, _algorithm(config)


def _algorithm(config: Config) -> str:
    """The algorithm's name, which its settings have too."""
    return algorithm_entry(config.algo).name


def _short(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."
