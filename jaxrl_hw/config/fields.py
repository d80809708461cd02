"""Every setting by its dotted key, with what stands beside its field."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

C = TypeVar("C")


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


def flag(key: str) -> str:
    """`ppo.max_grad_norm` as it is typed: --ppo.max-grad-norm."""
    return "--" + key.replace("_", "-")
