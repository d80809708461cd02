"""The settings in which a run differs from its preset."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxrl_hw.cli.report.run_record import RunRecord
from jaxrl_hw.config import validation
from jaxrl_hw.config.fields import differences
from jaxrl_hw.config.presets import preset_config

_OF_PLACES = ("robot", "run_dir", "mirror")
"""They say what and where, not how."""
_OPEN = ("auto", "", 0, 0.0)
"""Values of a preset that mean: the run settles it."""


class Change(NamedTuple):
    """A setting and its two values."""

    key: str
    preset: Any
    run: Any
    settled: bool
    """Whether the preset leaves it open, so that the plan may have chosen the run's value."""


def changed_settings(record: RunRecord) -> list[Change]:
    """What a run has changed, by key; nothing where its settings cannot be used here."""
    config = record.config
    if config is None:
        return []
    preset = preset_config(config.robot, config.preset, config.task, config.algo)
    changed = differences(validation.to_dict(preset), validation.to_dict(config), _OF_PLACES)
    return [Change(key, old, new, _is_open(old)) for key, old, new in changed]


def _is_open(value: Any) -> bool:
    return not isinstance(value, (bool, list)) and value in _OPEN
