"""How many environments fit, and how many pay."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.budget import NO_LIMITS, UNDER_LIMIT, Limits, budget_of, readable
from jaxrl_hw.hardware.detect import Hardware

# Past some hundred environments per core a thread pool is busy all the time: more of them make
# iterations longer, not throughput higher.
_ENVS_PER_CORE = 128
_TIGHT = 0.9
# A larger number has to bring this much: its iterations are longer, so there are fewer of them.
_GAIN = 1.05


class MemoryNeed(NamedTuple):
    """Bytes of a run: a fixed part, and a part for each environment."""

    fixed: int
    per_env: int
    compiling: int = 0
    """Peak before the run, while its program is compiled; it ends when the run begins."""

    def total(self, num_envs: int) -> int:
        """Bytes of the run with that many environments."""
        return self.fixed + self.per_env * num_envs

    def peak(self, num_envs: int) -> int:
        """The most at any time, compilation included."""
        return max(self.compiling, self.total(num_envs))


class Candidate(NamedTuple):
    """One size that was looked at."""

    num_envs: int
    expected_bytes: int
    fits: bool | None
    """None where the budget is unknown."""
    verdict: str
    """fits, tight (over nine tenths of the budget), fails or unknown."""
    steps_per_s: float | None
    """The best that was measured with it on this machine; None where it was not."""


class Sizing(NamedTuple):
    """The chosen number of environments and why."""

    num_envs: int
    budget_bytes: int | None
    """What the run may use; None where free memory is unknown."""
    expected_bytes: int
    """What it is expected to use, by `MemoryNeed`."""
    reasons: tuple[str, ...]
    candidates: tuple[Candidate, ...]
    most: int
    """The most that would be taken if memory held them."""
    bound_by_memory: bool
    """More would have been taken if memory held them."""


def choose_num_envs(
    hardware: Hardware,
    *,
    need: MemoryNeed,
    granularity: int,
    bounds: tuple[int, int],
    limits: Limits = NO_LIMITS,
    rates: Mapping[int, float] = MappingProxyType({}),
) -> Sizing:
    """The largest number of environments that fits the memory budget and still pays.

    granularity: the number is a multiple of it (see `check_divisible`).
    bounds: least and most wanted; below the least only where memory demands it.
    rates: steps per second that were measured, by number of environments.

    Raises UserError, with the numbers, where not even `granularity` environments fit.
    """
    budget, reasons = budget_of(hardware, limits)
    low, high, bound_by = _bounds(hardware, granularity, bounds, limits.max_envs, rates)
    if budget is None:
        reasons += (f"so the smallest usual number is taken: {low:,}",)
        chosen = low
    else:
        fitting = _largest_fit(budget, need, granularity)
        if fitting < granularity:
            raise UserError(_too_small(hardware, need, budget, granularity, limits))
        chosen = min(fitting, high)
        if fitting < low:
            reasons += (f"memory holds {fitting:,}, less than the usual {low:,}",)
        elif fitting < high:
            reasons += (f"memory holds {fitting:,}",)
        else:
            reasons += bound_by
    sizes = _sizes(low, max(high, bounds[1] // granularity * granularity), chosen)
    looked_at = tuple(_candidate(n, need, budget, rates) for n in sizes)
    return Sizing(
        chosen,
        budget,
        need.total(chosen),
        reasons,
        looked_at,
        high,
        budget is not None and chosen < high,
    )


def check_num_envs(
    num_envs: int,
    hardware: Hardware,
    *,
    need: MemoryNeed,
    granularity: int = 1,
    limits: Limits = NO_LIMITS,
    rates: Mapping[int, float] = MappingProxyType({}),
) -> Sizing:
    """Take the user's number, or a continued run's, if it fits.

    It may use what `limits` allow, more than a number chosen by `choose_num_envs` would: all of a
    memory limit, or with an "auto" fraction 0.95 of what is free. Raises UserError with the numbers
    where it does not fit.
    """
    budget, reasons = budget_of(hardware, limits, told=True)
    expected = need.peak(num_envs)
    if budget is not None and expected > budget:
        fitting = _largest_fit(budget, need, granularity)
        if fitting < granularity:
            raise UserError(_too_small(hardware, need, budget, granularity, limits))
        raise UserError(
            f"--num-envs {num_envs} needs {readable(expected)}, but {readable(budget)} can be "
            f"used ({'; '.join(reasons)}); at most {fitting} fit, or use --num-envs auto"
        )
    sizes = sorted({num_envs, *(num_envs * k // 4 for k in (1, 2, 8, 16))})
    sizes = [n for n in sizes if n == num_envs or (n >= granularity and n % granularity == 0)]
    looked_at = tuple(_candidate(n, need, budget, rates) for n in sizes)
    reasons = ("as told by --num-envs", *reasons)
    return Sizing(num_envs, budget, need.total(num_envs), reasons, looked_at, num_envs, False)


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


def paying(rates: Mapping[int, float]) -> int | None:
    """The number after which the next larger one that was measured gained too little.

    None where no two sizes, the larger at least one and a half times the smaller, tell.
    """
    sizes = sorted(rates)
    for smaller, larger in itertools.pairwise(sizes):
        if larger >= 1.5 * smaller and rates[larger] < _GAIN * rates[smaller]:
            return smaller
    return None


def _bounds(
    hardware: Hardware,
    granularity: int,
    bounds: tuple[int, int],
    max_envs: int,
    rates: Mapping[int, float],
) -> tuple[int, int, tuple[str, ...]]:
    """Least and most in multiples of the granularity, and what sets the most."""
    least, most = bounds
    reason = f"more than {most:,} make learning slower, not better"
    enough = paying(rates)
    if max_envs:
        most, reason = max_envs, f"--max-envs {max_envs:,}"
    elif enough is not None and enough < most:
        most = enough
        reason = f"measured here: more than {most:,} gain less than {_GAIN - 1:.0%} a step in size"
    elif hardware.platform == "cpu":
        pays = max(_ENVS_PER_CORE, hardware.cores * _ENVS_PER_CORE)
        if pays < most:
            most = pays
            cores = f"{hardware.cores} core{'s' if hardware.cores > 1 else ''}"
            reason = f"{cores} gain nothing from more than {_ENVS_PER_CORE} each: {most:,}"
    high = max(granularity, most // granularity * granularity)
    low = min(high, -(-least // granularity) * granularity)
    return low, high, (reason,)


def _largest_fit(budget: int, need: MemoryNeed, granularity: int) -> int:
    if need.compiling > budget:
        return 0
    fitting = (budget - need.fixed) // max(1, need.per_env)
    return max(0, fitting) // granularity * granularity


def _sizes(low: int, high: int, chosen: int) -> list[int]:
    sizes = {low, high, chosen}
    size = low
    while size < high:
        sizes.add(size)
        size *= 2
    return sorted(sizes)


def _candidate(
    num_envs: int, need: MemoryNeed, budget: int | None, rates: Mapping[int, float]
) -> Candidate:
    peak, verdict = need.peak(num_envs), "unknown"
    if budget is not None:
        verdict = "fails" if peak > budget else "tight" if peak > _TIGHT * budget else "fits"
    fits = None if budget is None else peak <= budget
    return Candidate(num_envs, need.total(num_envs), fits, verdict, rates.get(num_envs))


def _too_small(
    hardware: Hardware, need: MemoryNeed, budget: int, granularity: int, limits: Limits
) -> str:
    envs = f"{granularity} environment{'s' if granularity > 1 else ''}"
    least = need.peak(granularity)
    compiling = " while the program is compiled" if need.compiling == least else ""
    usable = readable(budget)
    said = f"not even {envs} fit: {readable(least)} needed{compiling}, {usable} can be used"
    if limits.memory is not None and budget <= limits.memory:
        enough = math.ceil(least / UNDER_LIMIT / 1e7) * 10
        return f"{said} under --memory-limit; give at least --memory-limit {enough}MB"
    free = readable(hardware.memory_free or 0)
    return (
        f"{said} ({free} free on the {hardware.name}); close other programs, use smaller networks "
        "or a shorter unroll"
    )
