"""Where a room's warnings go when nobody listens."""

from __future__ import annotations

import logging
from collections.abc import Callable

Warn = Callable[[str], None]


def log_warning(message: str) -> None:
    """The default `warn`: Python's log."""
    logging.getLogger("jaxrl_hw").warning(message)
