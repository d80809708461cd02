"""The C library's allocator: freed memory returns to the system, so that peaks are true."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
from collections.abc import Mapping

_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # M_MMAP_THRESHOLD and M_TRIM_THRESHOLD of malloc.h
_USER_VARIABLES = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")
"""How users set the same; or by glibc.malloc.* in GLIBC_TUNABLES."""

LARGE = 2 * 2**20
"""Arrays of this size on, bytes, are mapped on their own. Page faults cost up to 3 % of a CPU's
speed; with 256 KiB it was 3 to 17 %, and with 4 MiB up to 55 MB of 1 GB lay unused."""


def map_large(environment: Mapping[str, str] = os.environ) -> bool:
    """Return large arrays to the system as soon as they are freed, in the whole process.

    By default glibc keeps freed pieces of up to 32 MiB, and the next arrays do not fit into what a
    train step freed. A `go1` of 4,096 environments took 736 MB with that, and 706 MB without.

    Returns:
      Whether it is set. Not where the environment sets it, nor with another C library.
    """
    tuned = "glibc.malloc." in environment.get("GLIBC_TUNABLES", "")
    if tuned or any(environment.get(name) for name in _USER_VARIABLES):
        return False
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mapped = mallopt(_MMAP_THRESHOLD, LARGE)
        return bool(mapped and mallopt(_TRIM_THRESHOLD, 2 * LARGE))
    return False


def trim() -> None:
    """Return freed memory to the system: after a compilation that is hundreds of megabytes.

    Without glibc this only collects Python's garbage. Takes up to a tenth of a second.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
