"""Python's garbage collector while programs are built."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_SELDOM = (100_000, 20, 100)
"""Thresholds in place of Python's 700, 10, 10."""


@contextlib.contextmanager
def seldom() -> Iterator[None]:
    """Within it the collector runs seldom. Importing JAX and tracing programs make millions of
    objects that stay: the collector, left to itself, takes a sixth of that time."""
    before = gc.get_threshold()
    if before[0]:  # 0: the user has switched it off
        gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
