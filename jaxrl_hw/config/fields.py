"""Every setting by its dotted key: its type, its bounds, and values in every form they come in.

msgspec converts; the bounds are checked here, because its messages name neither the unit nor every
bound, and it knows no finite numbers and no ranges.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import operator
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from jaxrl_hw.config.units import parse_count
from jaxrl_hw.errors import UserError, unknown

C = TypeVar("C")
AUTO = "auto"
_COUNTS = ("env steps", "transitions")
"""Units of numbers that may be written 4.9M."""
_COMPARE = {"at_least": operator.ge, "above": operator.gt, "at_most": operator.le}
_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}

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

    @property
    def is_list(self) -> bool:
        return typing.get_origin(self.hint) is tuple

    @property
    def bounds(self) -> dict[str, float]:
        """Those of at_least, above and at_most that it has."""
        return {name: self.about[name] for name in _COMPARE if self.about.get(name) is not None}

    def convert(self, value: Any, source: str = "", got: str = "") -> Any:
        """A value as JSON or YAML has it in the setting's type; an int serves as a float.

        source: where it is from; "" for the flag. got: the value as a message shows it.
        Raises UserError for a value of another kind.
        """
        if isinstance(value, str) and self.about.get("unit") in _COUNTS and value != AUTO:
            return parse_count(value, f'{source}: "{self.key}"' if source else flag(self.key))
        try:
            return msgspec.convert(value, self.hint)
        except msgspec.ValidationError:
            pass
        if self.choices:
            if not source:
                raise unknown(self.key.replace(".", " "), str(value), self.choices)
            raise UserError(f"{source}: {unknown(self.key, str(value), self.choices)}")
        kinds = typing.get_args(self.hint) or (self.hint,)
        allowed = " or ".join(_KINDS.get(kind, str(kind)) for kind in kinds)
        if self.is_list:
            allowed = "a list of numbers" if kinds[-1] is ... else f"{len(kinds)} numbers"
        if self.hint == tuple[float, float]:
            allowed = "two numbers, low first"
        name = f'{source}: "{self.key}"' if source else flag(self.key)
        raise UserError(f"{name} must be {allowed}, got {got or repr(value)}")

    def read(self, words: Sequence[str]) -> Any:
        """The words that follow a flag in the setting's type. Raises UserError."""
        kinds = (self.hint, *typing.get_args(self.hint))
        is_text = any(kind is str or isinstance(kind, str) for kind in kinds)
        values: Any = list(words) if is_text else [plain(word) for word in words]
        value = values[0] if len(words) == 1 and not self.is_list else values
        return self.convert(value, got=f'"{" ".join(words)}"')

    def check(self, value: Any, name: str) -> None:
        """Raises UserError, which calls the setting `name`, where a value breaks its bounds."""
        if self.choices and value not in self.choices:
            raise unknown(self.key.replace(".", " "), str(value), self.choices)
        numbers = value if isinstance(value, tuple) else (value,)
        if value == AUTO and str in typing.get_args(self.hint):
            return
        shown = " ".join(map(str, numbers))
        if any(isinstance(x, float) and not math.isfinite(x) for x in numbers):
            raise UserError(f"{name} must be a finite number, got {shown}")
        if self.hint == tuple[float, float] and value[0] > value[1]:
            raise UserError(f"{name} must be a range, low first, got {shown}")
        bounds = self.bounds
        kept = all(_COMPARE[bound](x, bounds[bound]) for bound in bounds for x in numbers)
        if bounds and not (numbers and kept):
            allowed = (f"{bound.replace('_', ' ')} {bounds[bound]:.10g}" for bound in bounds)
            unit = f" {self.about['unit']}" if self.about.get("unit") else ""
            wanted = f"{' and '.join(allowed)}{unit}"
            raise UserError(f"{name} must be {wanted}, got {shown or 'nothing'}")


def plain(word: str) -> Any:
    """A word as a number, true or false, where it is one."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(word)
    return {"true": True, "false": False}.get(word, word)


def settings_of(group: Any, prefix: str = "") -> dict[str, Setting]:
    """All settings of a settings class and its groups, by dotted key, in order."""
    hints = _hints(group)
    found: dict[str, Setting] = {}
    for field in dataclasses.fields(group):
        key, hint = prefix + field.name, hints[field.name]
        if dataclasses.is_dataclass(hint):
            found |= settings_of(typing.cast(type, hint), f"{key}.")
        else:
            found[key] = Setting(key, hint, field.metadata)
    return found


@functools.cache
def _hints(group: Any) -> dict[str, Any]:
    """The types of a class's fields; Python compiles each of them from its text, every time."""
    return typing.get_type_hints(group)


def value_at(config: Any, key: str) -> Any:
    """The value of a dotted key."""
    for name in key.split("."):
        config = getattr(config, name)
    return config


def with_values(config: C, values: Mapping[str, Any]) -> C:
    """The config with other values at some dotted keys."""
    return _replaced(config, nested(values))


def _replaced(config: C, values: Mapping[str, Any]) -> C:
    changes = {
        name: _replaced(getattr(config, name), value) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    return dataclasses.replace(config, **changes)  # type: ignore[type-var]


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values by dotted key as nested dictionaries.

    Raises UserError where a group of settings has a value of its own too.
    """
    whole: dict[str, Any] = {}
    for key, value in values.items():
        *path, name = key.split(".")
        group = whole
        for step in path:
            group = group.setdefault(step, {})
            if not isinstance(group, dict):
                raise UserError(f'"{step}" must hold settings such as "{key}", got {group!r}')
        group[name] = value
    return whole


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
