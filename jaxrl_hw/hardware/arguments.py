"""The sizing flags as a user types them."""

from __future__ import annotations

import math
import re

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


def parse_memory(text: str) -> int | None:
    """Bytes of a size as people write it: 900MB, 6GB, 1.5 GiB; None for an empty text.

    kB, MB, GB and TB count in thousands, KiB, MiB, GiB and TiB in 1024s. Raises UserError for
    anything else, also for a number without a unit.
    """
    word = str(text).strip()
    if not word:
        return None
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+) *([A-Za-z]*)", word)
    unit = match and _UNITS.get(match[2].lower())
    if not match or not unit:
        hint = f"; did you mean {match[1]}GB?" if match and not match[2] else ""
        raise UserError(
            f'--memory-limit must be a size such as 900MB, 6GB or 2GiB, got "{text}"{hint}'
        )
    value = round(float(match[1]) * unit)
    if value < _LEAST_LIMIT:
        raise UserError(f'--memory-limit must be at least 1MB, got "{text}"')
    return value


_LEAST_LIMIT = 1_000_000
_UNITS = {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgt", start=1)
    for ending, base in (("", 1000), ("b", 1000), ("ib", 1024), ("i", 1024))
}
