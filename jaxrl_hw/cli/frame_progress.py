"""How far a film is, on screen."""

from __future__ import annotations

import time
from collections.abc import Callable

from jaxrl_hw.loggers import formats

_EVERY_S = 10.0


def frame_progress() -> Callable[[int, int], None]:
    """A function that prints a line every 10 s while frames are drawn."""
    began = printed = time.monotonic()

    def show(count: int, total: int) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= _EVERY_S and count < total:
            left = formats.duration((now - began) / count * (total - count))
            print(f"frame {count} of {total}, {left} left", flush=True)
            printed = now

    return show
