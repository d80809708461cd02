"""Every setting by its dotted key, with what stands beside its field."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

C = TypeVar("C")

MISSING = "(not there)"
"""Stands for a setting that only one of two configs has."""


class Setting(NamedTuple):
    """One setting: a field that is no group of settings."""

    key: str  # dotted, such as "ppo.gamma"
    hint: Any  # its type
    about: Mapping[str, Any]  # of `jaxrl_hw.types.setting`: unit, bounds, resume, stage

    @property
    def choices(self) -> tuple[str, ...]:
        """The values of a Literal type; () for any other."""
        return typing.get_args(self.hint) if typing.get_origin(self.hint) is typing.Literal else ()


def settings_of(group: Any, prefix: str = "") -> dict[str, Setting]:
    """All settings of a settings class and its groups, by dotted key, in order."""
    hints = typing.get_type_hints(group)
    found: dict[str, Setting] = {}
    for field in dataclasses.fields(group):
        key, hint = prefix + field.name, hints[field.name]
        if dataclasses.is_dataclass(hint):
            found |= settings_of(typing.cast(type, hint), f"{key}.")
        else:
            found[key] = Setting(key, hint, field.metadata)
    return found


def value_at(config: Any, key: str) -> Any:
    """The value of a dotted key."""
    for name in key.split("."):
        config = getattr(config, name)
    return config


def with_values(config: C, values: Mapping[str, Any]) -> C:
    """The config with other values at some dotted keys."""
    changes: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for key, value in values.items():
        name, _, rest = key.partition(".")
        if rest:
            groups.setdefault(name, {})[rest] = value
        else:
            changes[name] = value
    for name, inner in groups.items():
        changes[name] = with_values(getattr(config, name), inner)
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings, with or without dotted keys, by dotted key."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], ignore: Iterable[str] = ()
) -> list[tuple[str, Any, Any]]:
    """The differences of two nested settings: (dotted key, old value, new value), by key.

    ignore: dotted keys, or their prefixes, that may differ. A tuple equals a list, as JSON has only
    lists. Where a key is missing on one side, its value is `MISSING`.
    """
    before, after = (flatten(json.loads(json.dumps(values))) for values in (old, new))
    ignored = tuple(f"{name}." for name in ignore)
    keys = (key for key in sorted(before | after) if not f"{key}.".startswith(ignored))
    pairs = ((key, before.get(key, MISSING), after.get(key, MISSING)) for key in keys)
    return [pair for pair in pairs if pair[1] != pair[2]]


def flag(key: str) -> str:
    """`ppo.max_grad_norm` as it is typed: --ppo.max-grad-norm."""
    return "--" + key.replace("_", "-")
