"""What errors about memory say."""

from __future__ import annotations

import re
import sys

_COUNTED = re.compile(r"allocat\w+ (\d+) bytes")
_ROUNDED = re.compile(r"allocat\w+ ([0-9.]+) ?([KMGT])(i?)B")


def is_exhausted(error: BaseException) -> bool:
    """Whether it is XLA's RESOURCE_EXHAUSTED, or Python's MemoryError."""
    if isinstance(error, MemoryError):
        return True
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(error, jax.errors.JaxRuntimeError):
        return False
    text = str(error)
    return "RESOURCE_EXHAUSTED" in text or "out of memory" in text.lower()


def bytes_asked(error: BaseException) -> int | None:
    """The size in XLA's message: "... allocate 1073741824 bytes", or "... allocating 1.00GiB"."""
    text = str(error)
    if match := _COUNTED.search(text):
        return int(match[1])
    if match := _ROUNDED.search(text):
        power = "KMGT".index(match[2]) + 1
        return round(float(match[1]) * (1024 if match[3] else 1000) ** power)
    return None
