"""Values as a user types them: sizes of memory, shares, durations, rules. All raise UserError."""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from jaxrl_hw.errors import UserError

_LOWEST, _HIGHEST = 0.05, 0.95
_LEAST_LIMIT = 1_000_000
LEAST_PATIENCE = 1_000
"""Of `--early-stop`, env steps: fewer are less than an iteration."""
_FACTORS = {"k": 1000, "m": 1_000_000, "g": 1_000_000_000, "b": 1_000_000_000}
_UNITS = {
    f"{prefix}{ending}": base**power
    for power, prefix in enumerate("kmgt", start=1)
    for ending, base in (("", 1000), ("b", 1000), ("ib", 1024), ("i", 1024))
}
_DURATION = re.compile(r"(?:([\d.]+)h)?(?:([\d.]+)m)?(?:([\d.]+)s?)?")


def parse_num_envs(text: str | int) -> int | str:
    """A whole number of at least 1, or "auto"."""
    word = str(text).strip().lower()
    if word == "auto":
        return word
    if word.isascii() and word.isdecimal() and int(word) >= 1:
        return int(word)
    raise UserError(f'--num-envs must be "auto" or a whole number of at least 1, got "{text}"')


def parse_devices(text: str | int) -> int | str:
    """A whole number of at least 1, "all", or "" for none given."""
    word = str(text).strip().lower()
    if word in ("", "all"):
        return word
    if word.isascii() and word.isdecimal() and int(word) >= 1:
        return int(word)
    raise UserError(f'--devices must be "all" or a whole number of at least 1, got "{text}"')


def parse_fraction(text: str | float) -> float | str:
    """A share of memory from 0.05 to 0.95, or "auto"."""
    word = str(text).strip().lower()
    if word == "auto":
        return word
    value = _float(word)
    if _LOWEST <= value <= _HIGHEST:
        return value
    hint = f"; did you mean {value / 100:g}?" if _LOWEST <= value / 100 <= _HIGHEST else ""
    allowed = f'"auto" or a number from {_LOWEST} to {_HIGHEST}'
    raise UserError(f'--mem-fraction must be {allowed}, got "{text}"{hint}')


def parse_memory(text: str) -> int | None:
    """Bytes of a size as people write it: 900MB, 6GB, 1.5 GiB; None for an empty text.

    kB, MB, GB and TB count in thousands, KiB, MiB, GiB and TiB in 1024s; the unit must be there.
    """
    word = str(text).strip()
    if not word:
        return None
    match = re.fullmatch(r"([0-9.]+) *([A-Za-z]*)", word)
    value = _float(match[1]) * _UNITS.get(match[2].lower(), math.nan) if match else math.nan
    if value >= _LEAST_LIMIT:
        return round(value)
    allowed = "at least 1MB" if value >= 0 else "a size such as 900MB, 6GB or 2GiB"
    hint = f"; did you mean {match[1]}GB?" if match and not match[2] else ""
    raise UserError(f'--memory-limit must be {allowed}, got "{text}"{hint}')


def parse_count(text: str, source: str) -> int:
    """A whole number as people write it: 4915200, 4.9M, 30k, 1e6."""
    value = _count(str(text))
    if not 0 <= value < math.inf:
        raise UserError(f'{source} needs a number of steps such as 4915200 or 4.9M, got "{text}"')
    return int(value)


def format_count(number: int) -> str:
    """A number as `parse_count` reads it: 4.9152M, 800k, 7."""
    for unit, factor in (("M", 1_000_000), ("k", 1000)):
        if number >= factor and number % 100 == 0:
            return f"{number / factor:.15g}{unit}"
    return str(number)


def parse_duration(text: str, name: str = "--time-limit") -> float:
    """Seconds, more than 0, of "85m", "2h", "300s", "1h30m" or "90" (seconds)."""
    match = _DURATION.fullmatch(text.strip().lower())
    parts = match.groups(default="0") if match else ("nan",)
    seconds = sum(_float(x) * unit for x, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False))
    if not 0 < seconds < math.inf:
        raise UserError(f'{name} must be like 85m, 2h, 300s or 1h30m, got "{text}"')
    return seconds


class EarlyStopRule(NamedTuple):
    """When a run stops before its goal; see `training.stopping.EarlyStop`."""

    patience: int  # env steps
    min_delta: float  # of the mean return


def parse_early_stop(text: str) -> EarlyStopRule | None:
    """`patience=2M,min-delta=0.5` as a rule; None where the text is empty."""
    if not text.strip():
        return None
    words = [word.strip() for word in text.replace("_", "-").split(",")]
    values = dict(re.findall(r"^(patience|min-delta)=(\S+)$", "\n".join(words), re.MULTILINE))
    patience, min_delta = _count(values.get("patience", "")), _float(values.get("min-delta", "0"))
    if (
        len(values) < len(words)
        or not patience >= LEAST_PATIENCE
        or not 0.0 <= min_delta < math.inf
    ):
        raise UserError(
            f"--early-stop takes patience=ENV_STEPS (at least {format_count(LEAST_PATIENCE)}), and "
            "min-delta=RETURN (at least 0) after a comma, like patience=2M,min-delta=0.5; got "
            f'"{text}"'
        )
    return EarlyStopRule(int(patience), min_delta)


def _count(text: str) -> float:
    """A whole number, perhaps with a unit; NaN where the text is none."""
    word = text.strip().lower()
    factor = _FACTORS.get(word[-1:], 1)
    value = round(_float(word[:-1] if factor > 1 else word) * factor, 3)
    return value if math.isfinite(value) and value == int(value) else math.nan


def _float(text: str) -> float:
    """A number; NaN where the text is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
