"""A curriculum is data: stages, each with the settings that it changes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from jaxrl_hw.config.fields import Setting, flatten, plain, settings_of
from jaxrl_hw.config.units import format_count, parse_count
from jaxrl_hw.errors import UserError, suggest

_FORM = 'a stage is written "4.9M: joystick.zero-command=0.25 joystick.reward.fall=-5"'


@dataclass(frozen=True)
class Stage:
    """From an env step of a run on, some settings have other values.

    A stage holds in every iteration that begins at `env_steps` or later; stages add up.
    """

    env_steps: int
    """The env step, over all environments and sessions, from which the stage holds."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values by dotted key, such as {"joystick.reward.fall": -5.0}; may be nested."""

    def __post_init__(self) -> None:
        flat = flatten(self.settings)
        plain = {key: tuple(v) if isinstance(v, list) else v for key, v in flat.items()}
        object.__setattr__(self, "settings", plain)

    def __hash__(self) -> int:
        return hash((self.env_steps, json.dumps(self.settings, sort_keys=True)))


def stage_index(curriculum: Sequence[Stage], env_steps: int) -> int:
    """How many stages have begun after so many env steps; 0 before the first."""
    return sum(stage.env_steps <= env_steps for stage in curriculum)


def read_stages(value: Any, config_class: type, source: str) -> tuple[Stage, ...]:
    """Stages as flags, JSON or YAML have them.

    Args:
      value: a list of {"env_steps": N, "settings": {...}}, of Stages, or of texts such as
        "4.9M: joystick.zero-command=0.25 joystick.reward.fall=-5".
      config_class: whose settings they change.
      source: where they are from, for messages.

    Raises:
      UserError: another form or order, or a setting that no stage may change.
    """
    if not isinstance(value, list | tuple):
        raise UserError(f'{source}: "curriculum" must be a list of stages, got {value!r}')
    stages = tuple(_read_stage(entry, may_change(config_class), source) for entry in value)
    for before, after in pairwise(stages):
        if after.env_steps < before.env_steps:
            raise UserError(
                f"{source} needs its stages in rising order, got {after.env_steps} after "
                f"{before.env_steps}"
            )
    return stages


def _read_stage(entry: Any, allowed: Mapping[str, Setting], source: str) -> Stage:
    if isinstance(entry, Stage):
        entry = {"env_steps": entry.env_steps, "settings": entry.settings}
    stage = _parse(entry, source) if isinstance(entry, str) else entry
    if not isinstance(stage, Mapping) or set(stage) != {"env_steps", "settings"}:
        raise UserError(
            f'{source}: a stage must hold "env_steps" and "settings", and no more, got {entry!r}'
        )
    env_steps, settings = stage["env_steps"], stage["settings"]
    if isinstance(env_steps, str):
        env_steps = parse_count(env_steps, source)
    if not isinstance(env_steps, int) or env_steps < 0:
        raise UserError(f'{source}: "env_steps" must be a whole number, got {env_steps!r}')
    if not isinstance(settings, Mapping):
        raise UserError(f'{source}: "settings" of a stage must be settings, got {settings!r}')
    values = {}
    for key, value in flatten(settings).items():
        if key not in allowed:
            raise UserError(
                f'{source}: a stage cannot change "{key}"{suggest(key, allowed)}; it can change '
                f"{', '.join(allowed)}"
            )
        values[key] = allowed[key].convert(value, source)
    return Stage(env_steps, values)


def _parse(text: str, source: str) -> dict[str, Any]:
    begin, _, rest = text.partition(":")
    pairs = [word.partition("=") for word in rest.split()]
    if not pairs or not all(key and equals and value for key, equals, value in pairs):
        raise UserError(f'{source}: {_FORM}, got "{text}"')
    lists = {key.replace("-", "_"): list(map(plain, value.split(","))) for key, _, value in pairs}
    values = {key: value if value[1:] else value[0] for key, value in lists.items()}
    return {"env_steps": begin, "settings": values}


def format_stage(stage: Stage) -> str:
    """A stage as text that `read_stages` reads."""
    words = [f"{key.replace('_', '-')}={_text(value)}" for key, value in stage.settings.items()]
    return f"{format_count(stage.env_steps)}: {' '.join(words)}"


def may_change(config_class: type) -> dict[str, Setting]:
    """The settings that a stage may change, by dotted key."""
    known = settings_of(config_class)
    return {key: known[key] for key in known if known[key].about.get("stage")}


def _text(value: Any) -> str:
    return ",".join(map(_text, value)) if isinstance(value, list | tuple) else json.dumps(value)
