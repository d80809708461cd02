"""How many environments fit, and how many pay."""

from __future__ import annotations

import math
from typing import NamedTuple

from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.arguments import parse_fraction
from jaxrl_hw.hardware.detect import Hardware

# Of what is free. An accelerator's allocator loses some to fragmentation; main memory is shared
# with everything else on the machine, and there the kernel kills whoever asks for too much.
_AUTO = {"cpu": 0.6}
_AUTO_DEVICE = 0.8
# What a number given by the user may use: all that is free but for fragmentation.
_MOST = 0.95
# Past some hundred environments per core a thread pool is busy all the time: more of them make
# iterations longer, not throughput higher.
_ENVS_PER_CORE = 128


class MemoryNeed(NamedTuple):
    """Bytes of a run: a fixed part, and a part for each environment."""

    fixed: int
    per_env: int

    def total(self, num_envs: int) -> int:
        """Bytes with that many environments."""
        return self.fixed + self.per_env * num_envs


class Candidate(NamedTuple):
    """One size that was looked at."""

    num_envs: int
    expected_bytes: int
    fits: bool | None
    """None where the budget is unknown."""


class Sizing(NamedTuple):
    """The chosen number of environments and why."""

    num_envs: int
    budget_bytes: int | None
    """What the run may use; None where free memory is unknown."""
    expected_bytes: int
    """What it is expected to use, by `MemoryNeed`."""
    reasons: tuple[str, ...]
    candidates: tuple[Candidate, ...]


def choose_num_envs(
    hardware: Hardware,
    *,
    need: MemoryNeed,
    granularity: int,
    bounds: tuple[int, int],
    fraction: float | str,
) -> Sizing:
    """The largest number of environments that fits the memory budget and still pays.

    granularity: the number is a multiple of it (see `check_divisible`).
    bounds: least and most wanted; below the least only where memory demands it.
    fraction: share of the whole memory (0.05 to 0.95), never more than is free; "auto" is 0.8 of
        what is free on an accelerator and 0.6 on a CPU.

    Raises UserError, with the numbers, where not even `granularity` environments fit.
    """
    budget, reasons = _budget(hardware, fraction)
    low, high, limits = _bounds(hardware, granularity, bounds)
    if budget is None:
        reasons += (f"so the smallest usual number is taken: {low:,}",)
        chosen = low
    else:
        fitting = _largest_fit(budget, need, granularity)
        if fitting < granularity:
            raise UserError(_too_small(hardware, need, budget, granularity))
        chosen = min(fitting, high)
        if fitting < low:
            reasons += (f"memory holds {fitting:,}, less than the usual {low:,}",)
        elif fitting < high:
            reasons += (f"memory holds {fitting:,}",)
        else:
            reasons += limits
    looked_at = _candidates(low, high, chosen, need, budget)
    return Sizing(chosen, budget, need.total(chosen), reasons, looked_at)


def check_num_envs(
    num_envs: int,
    hardware: Hardware,
    *,
    need: MemoryNeed,
    granularity: int = 1,
    fraction: float | str = "auto",
) -> Sizing:
    """Take the user's number if it fits.

    It may use what `fraction` allows; with "auto" 0.95 of what is free, more than a number chosen
    by `choose_num_envs` would. Raises UserError with the numbers where it does not fit.
    """
    auto = parse_fraction(fraction) == "auto"
    budget, reasons = _budget(hardware, _MOST if auto else fraction, of_free=auto)
    expected = need.total(num_envs)
    if budget is not None and expected > budget:
        fitting = _largest_fit(budget, need, granularity)
        if fitting < granularity:
            raise UserError(_too_small(hardware, need, budget, granularity))
        raise UserError(
            f"--num-envs {num_envs} needs {_gb(expected)}, but {_gb(budget)} can be used "
            f"({'; '.join(reasons)}); at most {fitting} fit, or use --num-envs auto"
        )
    fits = (Candidate(num_envs, expected, None if budget is None else True),)
    return Sizing(num_envs, budget, expected, ("as told by --num-envs", *reasons), fits)


def check_divisible(num_envs: int, unroll: int, minibatches: int) -> None:
    """Raise UserError, with the nearest number that works, where minibatches would be unequal."""
    if (num_envs * unroll) % minibatches == 0:
        return
    step = granularity_of(unroll, minibatches)
    below = num_envs // step * step
    near = below + step if below == 0 or num_envs - below > step / 2 else below
    raise UserError(
        f"--num-envs {num_envs} x unroll {unroll} = {num_envs * unroll} samples do not divide into "
        f"{minibatches} minibatches; use a multiple of {step}, such as --num-envs {near}"
    )


def granularity_of(unroll: int, minibatches: int) -> int:
    """The least number of environments whose samples divide into the minibatches evenly."""
    return minibatches // math.gcd(unroll, minibatches)


def _budget(
    hardware: Hardware, fraction: float | str, of_free: bool = False
) -> tuple[int | None, tuple[str, ...]]:
    """Usable bytes and the sentence that says why.

    of_free: a number is a share of the free memory, not of the whole.
    """
    free, total = hardware.memory_free, hardware.memory_total
    if free is None:
        return None, (f"free memory of the {hardware.name} is unknown",)
    known = f"{_gb(free)} free of {_gb(total)}" if total else f"{_gb(free)} free"
    parsed = parse_fraction(fraction)
    if isinstance(parsed, str) or of_free:
        auto = _AUTO.get(hardware.platform, _AUTO_DEVICE)
        share = auto if isinstance(parsed, str) else parsed
        return int(share * free), (f"{known} ({hardware.memory_source}), {share:g} of it is used",)
    whole = int(parsed * (total or free))
    most = int(_MOST * free)
    if whole > most:
        return most, (f"{known} ({hardware.memory_source}): less than --mem-fraction {parsed:g}",)
    return whole, (f"{known} ({hardware.memory_source}), --mem-fraction {parsed:g}",)


def _bounds(
    hardware: Hardware, granularity: int, bounds: tuple[int, int]
) -> tuple[int, int, tuple[str, ...]]:
    """Least and most in multiples of the granularity, and what sets the most."""
    least, most = bounds
    reason = f"more than {most:,} make learning slower, not better"
    if hardware.platform == "cpu":
        pays = max(_ENVS_PER_CORE, hardware.cores * _ENVS_PER_CORE)
        if pays < most:
            most = pays
            cores = f"{hardware.cores} core{'s' if hardware.cores > 1 else ''}"
            reason = f"{cores} gain nothing from more than {_ENVS_PER_CORE} each: {most:,}"
    high = max(granularity, most // granularity * granularity)
    low = min(high, -(-least // granularity) * granularity)
    return low, high, (reason,)


def _largest_fit(budget: int, need: MemoryNeed, granularity: int) -> int:
    fitting = (budget - need.fixed) // max(1, need.per_env)
    return max(0, fitting) // granularity * granularity


def _candidates(
    low: int, high: int, chosen: int, need: MemoryNeed, budget: int | None
) -> tuple[Candidate, ...]:
    sizes = {low, high, chosen}
    size = low
    while size < high:
        sizes.add(size)
        size *= 2
    return tuple(
        Candidate(n, need.total(n), None if budget is None else need.total(n) <= budget)
        for n in sorted(sizes)
    )


def _too_small(hardware: Hardware, need: MemoryNeed, budget: int, granularity: int) -> str:
    envs = f"{granularity} environment{'s' if granularity > 1 else ''}"
    free = _gb(hardware.memory_free or 0)
    return (
        f"not even {envs} fit: {_gb(need.total(granularity))} needed, {_gb(budget)} can be used "
        f"({free} free on the {hardware.name}); close other programs, use smaller networks or a "
        "shorter unroll"
    )


def _gb(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e9:.3f} GB"
