"""What the networks see of one moment, its mirror image, and what of it is masked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # policy files and plans are read before jax is loaded, runs without numpy
    import numpy as np
    from jax import Array


class Observation(NamedTuple):
    """What the two networks see of one moment.

    The policy's part can be measured on a robot. The critic's part begins with the same entries,
    exact, adds what only a simulator knows, and is never exported.
    """

    policy: Array  # [..., O]
    critic: Array  # [..., C]


class SignedPermutation(NamedTuple):
    """A linear map with one entry of +-1 per row: mirrored[i] = sign[i] * x[perm[i]]."""

    perm: np.ndarray  # int [D]
    sign: np.ndarray  # float [D]

    def __call__(self, x: Array) -> Array:
        """[..., D] -> [..., D]."""
        return x[..., self.perm] * self.sign.astype(x.dtype)


class Symmetry(NamedTuple):
    """How a mirror image of the robot sees and acts."""

    policy: SignedPermutation
    critic: SignedPermutation
    action: SignedPermutation

    def observation(self, obs: Observation) -> Observation:
        return Observation(self.policy(obs.policy), self.critic(obs.critic))


class PhaseMask(NamedTuple):
    """Scales down the gait phase that the policy sees while the robot is to stand and does.

    A phase that runs on while the robot stands makes it step in place: a network can hardly tell
    "exactly no command" from "slowly", and tells a smaller phase easily. The mask is part of the
    policy, as normalization is; observations stay as they are.
    """

    motion: Any  # [O, K]: all entries of obs @ motion are within +-1 while the robot stands
    clock: Any  # [O]: the share taken from the phase entries, 0 for all others

    def __call__(self, obs: Array) -> Array:
        """[..., O] -> [..., O]."""
        calm = abs(obs @ self.motion).max(axis=-1, keepdims=True) < 1.0
        return obs * (1.0 - self.clock * calm)


def no_phase_mask(size: int) -> PhaseMask:
    """A mask that leaves observations [..., size] as they are."""
    import numpy as np

    return PhaseMask(np.zeros((size, 1), np.float32), np.zeros(size, np.float32))
