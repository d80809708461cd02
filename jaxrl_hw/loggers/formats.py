"""Numbers as people read them; "-" where there is none."""

from __future__ import annotations

import math


def count(value: float | None) -> str:
    """1,234,567"""
    return f"{value:,.0f}" if _is_finite(value) else "-"


def figure(value: float | None) -> str:
    """Four significant digits: 0.01234, 12.34, 1,234."""
    if value is None or not _is_finite(value):
        return "-"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if 0 < size < 0.01:
        return f"{value:.2e}"
    digits = 3 if size < 1 else 3 - math.floor(math.log10(size))
    return f"{value:.{digits}f}"


def size(value: float | None) -> str:
    """Bytes in decimal units: 950 MB, 1.2 GB."""
    if value is None or not _is_finite(value):
        return "-"
    for unit, scale, digits in (("TB", 1e12, 1), ("GB", 1e9, 1), ("MB", 1e6, 0), ("kB", 1e3, 0)):
        if value >= 0.9995 * scale:
            return f"{value / scale:,.{digits}f} {unit}"
    return f"{value:.0f} B"


def duration(seconds: float | None) -> str:
    """0.4 s, 12 s, 3m 20s, 1h 05m, 2d 03h"""
    if seconds is None or not _is_finite(seconds):
        return "-"
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    if total < 3600:
        return f"{total // 60}m {total % 60:02d}s"
    if total < 86400:
        return f"{total // 3600}h {total % 3600 // 60:02d}m"
    return f"{total // 86400}d {total % 86400 // 3600:02d}h"


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)
