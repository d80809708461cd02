"""JAX as a training process would start it. Called in processes of their own only."""

from __future__ import annotations

from typing import Any

from jaxrl_hw.hardware import xla
from jaxrl_hw.hardware.xla import Setting


def configure(platform: str) -> list[Setting]:
    """Set the variables that a run sets before it imports jax; returns them with their origin."""
    return xla.configure(
        fraction=None, cache_dir=None, platform=platform, host_callback=platform == "cpu"
    )


def open_jax(platform: str) -> Any:
    """The jax module, set up for the platform (cpu, gpu or tpu) as a run's is."""
    configure(platform)
    import jax

    xla.apply_pending()
    return jax
