"""Metrics as plain Python values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """A JSON value: NumPy and JAX scalars become Python numbers, non-finite floats None."""
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if not isinstance(value, (bool, int, float, str)) and hasattr(value, "tolist"):
        return plain(value.tolist())  # an array or a scalar of one
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
