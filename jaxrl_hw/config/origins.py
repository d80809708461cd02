"""Where the value of each setting comes from: the last layer that changes it, or names it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from jaxrl_hw.config.fields import flatten
from jaxrl_hw.config.schema import Config
from jaxrl_hw.config.validation import to_dict

DEFAULT, COMMAND_LINE = "default", "command line"


class Layer(NamedTuple):
    """A config on the way from the defaults to the whole one."""

    name: str
    config: Config
    given: Collection[str] = ()
    """Dotted keys that the layer names, even where it does not change them."""


class Origin(NamedTuple):
    """A setting's value, and the layer that it is from."""

    value: Any
    origin: str


def origins(layers: Sequence[Layer]) -> dict[str, Origin]:
    """By dotted key, in the order of the settings; layers later in the sequence lie above."""
    found: dict[str, Origin] = {}
    for layer in layers:
        for key, value in flatten(to_dict(layer.config)).items():
            before = found.get(key)
            if before is None or before.value != value or key in layer.given:
                found[key] = Origin(value, layer.name)
    return found
