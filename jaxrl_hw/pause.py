"""What a policy sees less of while it is told to stand still: the gait's clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:  # policy files are looked at before jax is loaded
    from jax import Array


class Pause(NamedTuple):
    """Makes the clock's entries of an observation smaller as long as nothing calls for a step.

    A clock that runs on while the robot stands makes it step in place: a network can tell "exactly
    no command" from "slowly" only with difficulty, and a smaller clock easily. It is part of the
    policy, as normalization is, so what is observed stays as it is.
    """

    motion: Any  # [O, K], an observation times this is within +-1 where it calls for none
    clock: Any  # [O], the part that is taken from the clock's entries, else 0

    def __call__(self, obs: Array) -> Array:
        """[..., O] -> [..., O]."""
        calm = abs(obs @ self.motion).max(axis=-1, keepdims=True) < 1.0
        return obs * (1.0 - self.clock * calm)


def no_pause(size: int) -> Pause:
    """Leaves observations [..., size] as they are."""
    return Pause(np.zeros((size, 1), np.float32), np.zeros(size, np.float32))
