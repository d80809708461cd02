"""How much memory a run may use: of what is free, and of what the user allows."""

from __future__ import annotations

from typing import NamedTuple

from jaxrl_hw.hardware.detect import Hardware

# Of what is free. An accelerator's allocator loses some to fragmentation; main memory is shared
# with everything else on the machine, and there the kernel kills whoever asks for too much.
_AUTO = {"cpu": 0.6}
_AUTO_DEVICE = 0.8
MOST = 0.95
"""What a number given by the user may use: all that is free but for fragmentation."""
# A limit is not to be passed, and predictions are good to a few percent.
UNDER_LIMIT = 0.92


class Limits(NamedTuple):
    """What a run may use, as the user put it."""

    fraction: float | str = "auto"
    """Share of the whole memory (0.05 to 0.95), never more than is free; "auto" is 0.8 of what is
    free on an accelerator and 0.6 on a CPU."""
    memory: int | None = None
    """Most bytes, None for no limit of its own."""
    max_envs: int = 0
    """Most environments; 0 is the usual most."""


NO_LIMITS = Limits()


def budget_of(
    hardware: Hardware, limits: Limits, told: bool = False
) -> tuple[int | None, tuple[str, ...]]:
    """Usable bytes and the sentence that says why.

    told: for a number of environments that is given, not chosen: it may use the whole limit and,
      with an "auto" fraction, `MOST` of what is free.
    """
    of_free = told and limits.fraction == "auto"
    usable, reasons = _usable(hardware, MOST if of_free else limits.fraction, of_free)
    limit = limits.memory
    if limit is None or (usable is not None and usable <= limit):
        return usable, reasons
    if told:
        return limit, (f"--memory-limit {readable(limit)}",)
    share = int(UNDER_LIMIT * limit)
    return share, (f"--memory-limit {readable(limit)}, {UNDER_LIMIT:g} of it is planned with",)


def _usable(
    hardware: Hardware, fraction: float | str, of_free: bool
) -> tuple[int | None, tuple[str, ...]]:
    free, total = hardware.memory_free, hardware.memory_total
    if free is None:
        return None, (f"free memory of the {hardware.name} is unknown",)
    known = f"{readable(free)} free of {readable(total)}" if total else f"{readable(free)} free"
    if isinstance(fraction, str) or of_free:
        auto = _AUTO.get(hardware.platform, _AUTO_DEVICE)
        share = auto if isinstance(fraction, str) else fraction
        return int(share * free), (f"{known} ({hardware.memory_source}), {share:g} of it is used",)
    whole = int(fraction * (total or free))
    most = int(MOST * free)
    if whole > most:
        return most, (f"{known} ({hardware.memory_source}): less than --mem-fraction {fraction:g}",)
    return whole, (f"{known} ({hardware.memory_source}), --mem-fraction {fraction:g}",)


def readable(count: float) -> str:
    """Bytes in decimal units: 1.2 GB, 910 MB."""
    return f"{count / 1e9:.1f} GB" if count >= 0.9995e9 else f"{count / 1e6:.0f} MB"
