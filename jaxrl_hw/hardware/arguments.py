"""The sizing flags as a user types them."""

from __future__ import annotations

import math

from jaxrl_hw.errors import UserError

_LOWEST, _HIGHEST = 0.05, 0.95


def parse_num_envs(text: str | int) -> int | str:
    """A whole number of at least 1, or "auto". Raises UserError for anything else."""
    word = str(text).strip().lower()
    if word == "auto":
        return "auto"
    if word.isascii() and word.isdecimal() and int(word) >= 1:
        return int(word)
    raise UserError(f'--num-envs must be "auto" or a whole number of at least 1, got "{text}"')


def parse_fraction(text: str | float) -> float | str:
    """A share of memory from 0.05 to 0.95, or "auto". Raises UserError for anything else."""
    word = str(text).strip().lower()
    if word == "auto":
        return "auto"
    try:
        value = float(word)
    except ValueError:
        value = math.nan
    if _LOWEST <= value <= _HIGHEST:
        return value
    hint = f"; did you mean {value / 100:g}?" if _LOWEST <= value / 100 <= _HIGHEST else ""
    allowed = f'"auto" or a number from {_LOWEST} to {_HIGHEST}'
    raise UserError(f'--mem-fraction must be {allowed}, got "{text}"{hint}')
