"""Values as a user types them: sizes of memory, shares, durations, rules."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

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


def parse_count(text: str, source: str) -> int:
    """A whole number as people write it: 4915200, 4.9M, 30k, 1e6. UserError for anything else."""
    word = str(text).strip().lower()
    factor = _COUNTS.get(word[-1:], 1)
    try:
        value = round(float(word[:-1] if factor > 1 else word) * factor, 3)
    except (ValueError, OverflowError):
        value = math.nan
    if not 0 <= value < math.inf or value != int(value):
        raise UserError(f'{source} needs a number of steps such as 4915200 or 4.9M, got "{text}"')
    return int(value)


def format_count(number: int) -> str:
    """A number as `parse_count` reads it: 4.9152M, 800k, 7."""
    for unit, factor in (("M", 1_000_000), ("k", 1000)):
        if number >= factor and number % 100 == 0:
            return f"{number / factor:.15g}{unit}"
    return str(number)


_COUNTS = {"k": 1000, "m": 1_000_000, "g": 1_000_000_000, "b": 1_000_000_000}


_LEAST_LIMIT = 1_000_000
_UNITS = {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgt", start=1)
    for ending, base in (("", 1000), ("b", 1000), ("ib", 1024), ("i", 1024))
}


_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


def parse_duration(text: str) -> float:
    """Seconds of "85m", "2h", "300s", "1h30m" or "90" (seconds).

    Raises UserError for anything else, and for 0.
    """
    match = _DURATION.fullmatch(text.strip().lower())
    seconds = 0.0
    if match is not None:
        hours, minutes, rest = (float(part or 0) for part in match.groups())
        seconds = hours * _SECONDS["h"] + minutes * _SECONDS["m"] + rest * _SECONDS["s"]
    if not 0 < seconds < float("inf"):
        raise UserError(f'--time-limit must be like 85m, 2h, 300s or 1h30m, got "{text}"')
    return seconds


class EarlyStopRule(NamedTuple):
    """When a run stops before its goal; see `training.early_stop.EarlyStop`."""

    patience: int  # iterations
    min_delta: float  # of the mean return


_EARLY_STOP_FORM = (
    "patience=ITERATIONS, and min-delta=RETURN after a comma, like patience=300,min-delta=0.5"
)
_EARLY_STOP_PART = re.compile(r"(patience|min-delta)=(\S+)")


def parse_early_stop(text: str) -> EarlyStopRule | None:
    """`patience=300,min-delta=0.5` as a rule; None where the text is empty.

    Raises:
      UserError: another form, a patience that is no whole number above 0, a negative min-delta.
    """
    if not text.strip():
        return None
    values: dict[str, str] = {}
    for word in text.replace("_", "-").split(","):
        match = _EARLY_STOP_PART.fullmatch(word.strip())
        if match is None or match[1] in values:
            raise UserError(f'--early-stop takes {_EARLY_STOP_FORM}; got "{text}"')
        values[match[1]] = match[2]
    try:
        patience, min_delta = int(values["patience"]), float(values.get("min-delta", 0.0))
    except (KeyError, ValueError):
        raise UserError(f'--early-stop takes {_EARLY_STOP_FORM}; got "{text}"') from None
    if patience < 1 or not 0.0 <= min_delta < math.inf:
        raise UserError(
            f"--early-stop needs a patience of at least 1 and a min-delta of at least 0, "
            f'got "{text}"'
        )
    return EarlyStopRule(patience, min_delta)
