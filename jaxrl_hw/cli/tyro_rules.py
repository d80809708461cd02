"""How tyro shows and reads settings: help with units and bounds, values as the words given."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from functools import cache
from typing import Any

from docstring_parser import parse_from_object
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from jaxrl_hw.config.curriculum import Stage, format_stage
from jaxrl_hw.config.fields import Setting

NO_STAGES = "none"
"""The word of `--curriculum` that empties it."""


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
        fields.append(StructFieldSpec(field.name, form, default, _help(kind, field)))
    return StructConstructorSpec(instantiate=dict, fields=tuple(fields))


def _help(kind: type, field: dataclasses.Field[Any]) -> str:
    """The docstring, unit and bounds of a field."""
    owner = next(base for base in kind.__mro__ if field.name in inspect.get_annotations(base))
    text, bounds = _docs(owner).get(field.name, ""), Setting("", field.type, field.metadata).bounds
    signs = {"at_least": ">=", "above": ">", "at_most": "<="}
    notes = [f"{signs[name]} {limit:.10g}" for name, limit in bounds.items()]
    notes = [field.metadata["unit"], *notes] if field.metadata.get("unit") else notes
    return f"{text} [{', '.join(notes)}]" if notes else text


@cache
def _docs(owner: type) -> dict[str, str]:
    if owner.__name__ == "Config" and owner.__module__.endswith("presets"):
        return {}  # made at run time: it has no source
    docs = parse_from_object(owner).params
    return {doc.arg_name: " ".join((doc.description or "").split()) for doc in docs}


def _form(hint: Any) -> PrimitiveConstructorSpec[Any]:
    """How the help shows a setting's values and its default."""
    kinds = typing.get_args(hint) or (hint,)
    read: Any = Words
    if kinds[0] is Stage:  # `jaxrl_hw.config.validation.check` reads the words
        form, read = '"STEPS: SETTING=VALUE ..."', _without_none
    elif typing.get_origin(hint) is typing.Literal:
        form = f"{{{','.join(map(str, kinds))}}}"
    elif kinds[-1] is ...:
        form = f"[{kinds[0].__name__.upper()} [{kinds[0].__name__.upper()} ...]]"
    else:
        between = " " if typing.get_origin(hint) is tuple else "|"
        form = between.join(kind.__name__.upper() for kind in kinds)
    return PrimitiveConstructorSpec("*", form, read, lambda value: True, _shown)


def _without_none(words: list[str]) -> tuple[str, ...]:
    return tuple(word for word in words if word != NO_STAGES)


def _shown(value: Any) -> list[str]:
    if not isinstance(value, tuple):
        return [str(value)]
    return [format_stage(x) if isinstance(x, Stage) else str(x) for x in value] or [NO_STAGES]
