"""Values of JSON, YAML and flags as the types of settings."""

from __future__ import annotations

import typing
from typing import Any

from jaxrl_hw.errors import UserError, unknown


def convert(hint: Any, value: Any, key: str, source: str) -> Any:
    """A JSON or YAML value as a setting's type.

    Args:
      hint: the type: int, float, str, bool, a union of them, a Literal, or a tuple of them.
      value: as JSON has it; an int serves as a float.
      key: the setting's dotted key, for messages.
      source: where the value is from, for messages.

    Raises:
      UserError: a value of another kind; says what is allowed.
    """
    args = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        many = args[-1] is Ellipsis
        if isinstance(value, list | tuple) and (many or len(value) == len(args)):
            return tuple(convert(args[0], item, key, source) for item in value)
        size = "numbers" if many else f"{len(args)} numbers"
        raise UserError(f'{source}: "{key}" must be a list of {size}, got {value!r}')
    if typing.get_origin(hint) is typing.Literal:
        if value not in args:
            raise UserError(f"{source}: {unknown(key, str(value), args)}")
        return value
    wanted = args or (hint,)
    if isinstance(value, bool):
        if bool in wanted:
            return value
    elif isinstance(value, int) and float in wanted and int not in wanted:
        return float(value)
    elif isinstance(value, wanted):
        return value
    names = " or ".join(kind.__name__ for kind in wanted)
    raise UserError(f'{source}: "{key}" must be {names}, got {value!r}')
