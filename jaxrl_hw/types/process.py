"""What every floor may ask of the process that it runs in. Never imports jax."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder() -> Path:
    """Where this library keeps what it can make again: $JAXRL_HW_CACHE, or jaxrl_hw in the user's
    cache folder."""
    own = os.environ.get("JAXRL_HW_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    # The XDG specification says that a relative path is to be ignored.
    root = Path(base) if base and Path(base).is_absolute() else Path("~/.cache").expanduser()
    return root / "jaxrl_hw"


def backend_running() -> bool:
    """Whether JAX has opened its devices, which is when the memory settings are read."""
    if "jax" not in sys.modules:
        return False
    bridge = sys.modules.get("jax._src.xla_bridge")
    started = getattr(bridge, "backends_are_initialized", None)
    # Where a future JAX hides it, the careful answer is that it is too late.
    return bool(started()) if callable(started) else True
