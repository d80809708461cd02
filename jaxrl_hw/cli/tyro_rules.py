"""How tyro shows and reads settings: help with units and bounds, stages as words."""

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
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructFieldSpec,
    StructTypeInfo,
)

from jaxrl_hw.config.curriculum import Stage, format_stage

NO_STAGES = "none"
"""The word of `--curriculum` that empties it."""


def rules() -> ConstructorRegistry:
    """tyro's rules for settings classes."""
    registry = ConstructorRegistry()
    registry.struct_rule(_settings_class)
    registry.primitive_rule(_stages)
    return registry


def _settings_class(info: StructTypeInfo) -> StructConstructorSpec | None:
    """A settings class, with the docstring, unit and bounds of each field as its help."""
    if not dataclasses.is_dataclass(info.type) or info.type is Stage:
        return None
    kind, hints = typing.cast(type, info.type), typing.get_type_hints(info.type)
    fields = tuple(
        StructFieldSpec(
            field.name, hints[field.name], getattr(info.default, field.name), _help(kind, field)
        )
        for field in dataclasses.fields(kind)
    )
    return StructConstructorSpec(instantiate=kind, fields=fields)


def _help(kind: type, field: dataclasses.Field[Any]) -> str:
    owner = next(base for base in kind.__mro__ if field.name in inspect.get_annotations(base))
    about, text = field.metadata, _docs(owner).get(field.name, "")
    signs = (("at_least", ">="), ("above", ">"), ("at_most", "<="))
    bounds = [f"{sign} {about[name]:.10g}" for name, sign in signs if about.get(name) is not None]
    notes = [*([about["unit"]] if about.get("unit") else []), *bounds]
    return f"{text} [{', '.join(notes)}]" if notes else text


@cache
def _docs(owner: type) -> dict[str, str]:
    if owner.__name__ == "Config" and owner.__module__.endswith("groups"):
        return {}  # made at run time: it has no source
    docs = parse_from_object(owner).params
    return {doc.arg_name: " ".join((doc.description or "").split()) for doc in docs}


def _stages(info: PrimitiveTypeInfo) -> Any:
    """A curriculum as words, which `jaxrl_hw.config.validation.check` reads: tyro would frame its
    messages."""
    if info.type != tuple[Stage, ...]:
        return None
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar='"STEPS: SETTING=VALUE ..."',
        instance_from_str=lambda words: tuple(word for word in words if word != NO_STAGES),
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda stages: [format_stage(stage) for stage in stages] or [NO_STAGES],
    )
