"""How many environments fit into memory, and how many are worth their time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from jaxrl_hw.errors import UserError
from jaxrl_hw.hardware.detect import Hardware
from jaxrl_hw.loggers.formats import size

_AUTO_CPU, _AUTO_DEVICE = 0.6, 0.8
"""Share of what is free that "auto" uses. An accelerator's allocator loses some to fragmentation;
main memory is shared, and the kernel kills whoever asks for too much of it."""
MOST = 0.95
"""Share of what is free that a number given by the user may use; the rest is fragmentation."""
UNDER_LIMIT = 0.92
"""Share of a memory limit that "auto" plans with: predictions are good to a few percent."""
_TIGHT = 0.9
# A thread pool is always busy from some hundred environments per core on: more of them make
# iterations longer, not throughput higher.
_ENVS_PER_CORE = 128
# A larger number must raise throughput by this factor: it does fewer iterations in the same time.
_GAIN = 1.05
_NO_RATES: Mapping[int, float] = MappingProxyType({})


class Limits(NamedTuple):
    """What the user allows a run to use."""

    fraction: float | str = "auto"
    """Share of the whole memory (0.05 to 0.95), never more than is free; "auto" is 0.8 of what is
    free on an accelerator and 0.6 on a CPU."""
    memory: int | None = None
    """Most bytes; None for no limit."""
    max_envs: int = 0
    """Most environments; 0 for the platform's usual most."""


NO_LIMITS = Limits()


class MemoryNeed(NamedTuple):
    """Bytes of a run: a fixed part, and a part for each environment."""

    fixed: int
    per_env: int
    compiling: int = 0
    """Peak while the program is compiled, before the run begins."""

    def total(self, num_envs: int) -> int:
        """Bytes of the run with that many environments."""
        return self.fixed + self.per_env * num_envs

    def peak(self, num_envs: int) -> int:
        """The most at any time, compilation included."""
        return max(self.compiling, self.total(num_envs))


class Candidate(NamedTuple):
    """One number of environments that was considered."""

    num_envs: int
    expected_bytes: int
    fits: bool | None
    """None where the budget is unknown."""
    verdict: str
    """fits, tight (over nine tenths of the budget), fails or unknown."""
    steps_per_s: float | None
    """The best speed measured with it on this machine; None where it was not measured."""


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
    """The number that unlimited memory would give."""
    bound_by_memory: bool
    """Whether memory makes it less than `most`."""


def choose_num_envs(
    hardware: Hardware,
    *,
    need: MemoryNeed,
    bounds: tuple[int, int],
    limits: Limits = NO_LIMITS,
    rates: Mapping[int, float] = _NO_RATES,
) -> Sizing:
    """The largest number of environments that fits the memory budget and is worth its time.

    Args:
      hardware: to choose for.
      need: memory of the run.
      bounds: least and most wanted; below the least only where memory demands it.
      limits: of the user.
      rates: measured steps per second by number of environments.

    Raises:
      UserError: not even one environment fits; the message has the numbers.
    """
    budget, reason = budget_of(hardware, limits)
    high, most_reason = _most(hardware, bounds[1], limits.max_envs)
    low = min(high, bounds[0])
    if budget is None:
        chosen, why = low, f"so the smallest usual number: {low:,}"
    else:
        fitting = _most_fitting(hardware, need, budget, limits)
        chosen, why = min(fitting, high), most_reason
        if fitting < high:
            usual = f", less than the usual {low:,}" if fitting < low else ""
            why = f"memory holds {fitting:,}{usual}"
    largest = max(high, bounds[1])
    doubled = itertools.takewhile(lambda n: n < largest, (low << k for k in itertools.count()))
    candidates = _candidates({low, largest, chosen, *doubled}, need, budget, rates)
    bound = budget is not None and chosen < high
    return Sizing(chosen, budget, need.total(chosen), (reason, why), candidates, high, bound)


def check_num_envs(
    num_envs: int,
    hardware: Hardware,
    *,
    need: MemoryNeed,
    limits: Limits = NO_LIMITS,
    rates: Mapping[int, float] = _NO_RATES,
) -> Sizing:
    """Take a given number of environments, the user's or a continued run's, if it fits.

    It may use more than `choose_num_envs` would: all of a memory limit, or with an "auto" fraction
    0.95 of what is free.

    Raises:
      UserError: it does not fit; the message has the numbers.
    """
    budget, reason = budget_of(hardware, limits, given=True)
    needed = need.peak(num_envs)
    if budget is not None and needed > budget:
        fitting = _most_fitting(hardware, need, budget, limits)
        raise UserError(
            f"--num-envs {num_envs} needs {size(needed)}, but {size(budget)} can be "
            f"used ({reason}); at most {fitting} fit, or use --num-envs auto"
        )
    others = {n for k in (1, 2, 8, 16) if (n := num_envs * k // 4)}
    candidates = _candidates({num_envs, *others}, need, budget, rates)
    reasons = ("given by --num-envs", reason)
    return Sizing(num_envs, budget, need.total(num_envs), reasons, candidates, num_envs, False)


def enough_envs(rates: Mapping[int, float]) -> int | None:
    """The first measured number after which the next larger one gained too little.

    None where no pair of sizes shows it; the larger of a pair is at least 1.5 times the smaller.
    """
    for smaller, larger in itertools.pairwise(sorted(rates)):
        if larger >= 1.5 * smaller and rates[larger] < _GAIN * rates[smaller]:
            return smaller
    return None


def budget_of(hardware: Hardware, limits: Limits, given: bool = False) -> tuple[int | None, str]:
    """Usable bytes, None where unknown, and the reason.

    given: for a given number of environments (see `check_num_envs`).
    """
    free, total, fraction = hardware.memory_free, hardware.memory_total, limits.fraction
    usable, reason = None, f"free memory of the {hardware.name} is unknown"
    if free is not None:
        known = f"{size(free)} free of {size(total)}" if total else f"{size(free)} free"
        known, most = f"{known} ({hardware.memory_source})", int(MOST * free)
        if isinstance(fraction, str):
            auto = _AUTO_CPU if hardware.platform == "cpu" else _AUTO_DEVICE
            share = MOST if given else auto
            usable, reason = int(share * free), f"{share:.0%} of {known}"
        else:
            wanted, flag = int(fraction * (total or free)), f"--mem-fraction {fraction:g}"
            reason = f"{known}, {flag}" if wanted <= most else f"{known}: less than {flag}"
            usable = min(wanted, most)
    limit = limits.memory
    if limit is None or (usable is not None and usable <= limit):
        return usable, reason
    if given:
        return limit, f"--memory-limit {size(limit)}"
    return int(UNDER_LIMIT * limit), f"{UNDER_LIMIT:.0%} of --memory-limit {size(limit)}"


def _most(hardware: Hardware, most: int, max_envs: int) -> tuple[int, str]:
    """The most environments worth their time, and the reason.

    It depends on the kind of machine alone. Speeds that were measured on it vary with what else it
    was doing, and what is learned must not.
    """
    if max_envs:
        return max_envs, f"--max-envs {max_envs:,}"
    cores = max(1, hardware.cores)
    if hardware.platform == "cpu" and cores * _ENVS_PER_CORE < most:
        most, plural = cores * _ENVS_PER_CORE, "s" if cores > 1 else ""
        reason = f"{cores} core{plural} gain nothing from more than {_ENVS_PER_CORE} each: {most:,}"
        return most, reason
    return most, f"learning has been measured with up to {most:,}"


def _candidates(
    sizes: set[int], need: MemoryNeed, budget: int | None, rates: Mapping[int, float]
) -> tuple[Candidate, ...]:
    def candidate(n: int) -> Candidate:
        peak, fits, verdict = need.peak(n), None, "unknown"
        if budget is not None:
            fits = peak <= budget
            verdict = "fails" if not fits else "tight" if peak > _TIGHT * budget else "fits"
        return Candidate(n, need.total(n), fits, verdict, rates.get(n))

    return tuple(map(candidate, sorted(sizes)))


def _most_fitting(hardware: Hardware, need: MemoryNeed, budget: int, limits: Limits) -> int:
    """The most environments within a budget. Raises UserError where there is none."""
    least = need.peak(1)
    if least <= budget:
        return (budget - need.fixed) // max(1, need.per_env)
    compiling = " while the program is compiled" if need.compiling == least else ""
    needed = f"{size(least)} needed{compiling}, {size(budget)} can be used"
    text = f"not even 1 environment fits: {needed}"
    if limits.memory is not None and budget <= limits.memory:
        enough = math.ceil(least / UNDER_LIMIT / 1e7) * 10
        raise UserError(f"{text} under --memory-limit; give at least --memory-limit {enough}MB")
    raise UserError(
        f"{text} ({size(hardware.memory_free)} free on the {hardware.name}); close other programs, "
        "use smaller networks or a shorter unroll"
    )
