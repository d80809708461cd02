"""What evaluation asks of a trained policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from jaxrl_hw.config.schema import Config


class Trained(Protocol):
    """A policy that can be driven: `jaxrl_hw.Run` is one, and what the commands open."""

    @property
    def config(self) -> Config:
        """That it was trained with."""

    @property
    def policy(self) -> Callable[[Any], Any]:
        """Policy observations [N, O] -> actions [N, A], without exploration noise."""

    @property
    def iteration(self) -> int:
        """Iterations it was trained for."""
