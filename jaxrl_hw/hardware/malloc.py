"""The C library's allocator: what is freed is to go back to the system, so that peaks are true."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Mapping

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
_OWN = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
"""Variables by which users set it themselves; or GLIBC_TUNABLES, with glibc.malloc.* in it."""

LARGE = 2 * 2**20
"""Pieces of this size on, bytes, are mapped on their own. Page faults cost up to 3 % of a CPU's
speed; with 256 KiB it was 3 to 17 %, and with 4 MiB up to 55 MB of 1 GB lay unused."""


def map_large(environment: Mapping[str, str] = os.environ) -> bool:
    """Let large arrays go back to the system as soon as they are freed, for the whole process.

    glibc learns from each large piece that is freed to keep the next ones up to 32 MiB; what a
    train step frees then lies about in pieces that the next arrays do not fit. A `go1` of 4,096
    environments took 736 MB with that, and 706 MB without.

    Returns:
      Whether it is so now. Not where the environment says otherwise, nor with another C library.
    """
    tuned = "glibc.malloc." in environment.get("GLIBC_TUNABLES", "")
    if tuned or any(environment.get(name) for name in _OWN):
        return False
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mapped = mallopt(_MMAP_THRESHOLD, LARGE)
        return bool(mapped and mallopt(_TRIM_THRESHOLD, 2 * LARGE))
    return False


def trim() -> None:
    """Give back what the process has freed: after a compilation that is hundreds of megabytes.

    The C library keeps freed memory for itself until it is told otherwise; where it cannot be told
    (not glibc) this only collects Python's garbage. Takes up to a tenth of a second.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
