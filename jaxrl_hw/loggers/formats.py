"""Numbers as people read them."""

from __future__ import annotations

import math
from typing import Any


def count(value: float | None) -> str:
    """1,234,567"""
    return "-" if _missing(value) else f"{value:,.0f}"


def figure(value: float | None) -> str:
    """Four digits that matter: 0.01234, 12.34, 1,234; "-" where there is none."""
    if value is None or _missing(value):
        return "-"
    size = abs(value)
    if size >= 1000:
        return f"{value:,.0f}"
    if size >= 0.01 or size == 0:
        digits = 3 if size < 1 else max(0, 3 - math.floor(math.log10(size)))
        return f"{value:.{digits}f}"
    return f"{value:.2e}"


def size(value: float | None) -> str:
    """Bytes in decimal units: 950 MB, 1.2 GB."""
    if value is None or _missing(value):
        return "-"
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= 0.9995 * scale:
            digits = 1 if unit in ("TB", "GB") else 0
            return f"{value / scale:,.{digits}f} {unit}"
    return f"{value:.0f} B"


def duration(seconds: float | None) -> str:
    """0.4 s, 12 s, 3m 20s, 1h 05m, 2d 03h"""
    if seconds is None or _missing(seconds):
        return "-"
    if seconds < 9.95:
        return f"{max(0.0, seconds):.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600:02d}h"


def _missing(value: Any) -> bool:
    return value is None or not math.isfinite(value)
