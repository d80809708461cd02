"""How tyro reads settings: the words given, which `config.fields.Setting.read` converts."""

from __future__ import annotations

import dataclasses
import typing
from typing import Any

from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from jaxrl_hw.cli.settings_help import NO_STAGES
from jaxrl_hw.config.curriculum import Stage


class Words(tuple[str, ...]):
    """What was given for a setting. tyro would frame the message of a value that it reads."""


def rules() -> ConstructorRegistry:
    """tyro's rule for settings classes: it makes a nested dict of defaults, `Words` and bools."""
    registry = ConstructorRegistry()
    registry.struct_rule(_settings_class)
    return registry


def _settings_class(info: StructTypeInfo) -> StructConstructorSpec | None:
    if not dataclasses.is_dataclass(info.type):
        return None
    kind, hints = typing.cast(type, info.type), typing.get_type_hints(info.type)
    fields = []
    for field in dataclasses.fields(kind):
        hint, default = hints[field.name], getattr(info.default, field.name)
        form = hint
        if hint is not bool and not dataclasses.is_dataclass(hint):
            form = typing.Annotated[object, _form(hint)]
        fields.append(StructFieldSpec(field.name, form, default, ""))
    return StructConstructorSpec(instantiate=dict, fields=tuple(fields))


def _form(hint: Any) -> PrimitiveConstructorSpec[Any]:
    """Any number of words. `jaxrl_hw.config.validation.check` reads those of stages."""
    read: Any = _without_none if Stage in typing.get_args(hint) else Words
    return PrimitiveConstructorSpec("*", "VALUE", read, lambda value: True, _words)


def _without_none(words: list[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word != NO_STAGES)


def _words(value: Any) -> list[str]:
    return [str(x) for x in value] if isinstance(value, tuple) else [str(value)]
