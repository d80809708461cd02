"""What a checkpoint is made of, known without jax."""

from __future__ import annotations

from typing import Any

import numpy as np

Arrays = dict[str, np.ndarray]
"""A state's leaves by name."""
Description = dict[str, dict[str, Any]]
"""Per leaf: dtype, shape, crc (CRC-32 of its bytes) and, for random keys, impl."""


class DamagedError(Exception):
    """Bytes that were read are not the bytes that were written."""
