"""Left-right mirror maps of observations and actions."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from jaxrl_hw.types import Observation


class SignedPermutation(NamedTuple):
    """A linear map with one entry of +-1 per row: mirrored[i] = sign[i] * x[perm[i]]."""

    perm: np.ndarray  # int [D]
    sign: np.ndarray  # float [D]

    def __call__(self, x: Array) -> Array:
        """[..., D] -> [..., D]."""
        return x[..., self.perm] * jnp.asarray(self.sign, x.dtype)


class Symmetry(NamedTuple):
    """How a mirror image of the robot sees and acts."""

    policy: SignedPermutation
    critic: SignedPermutation
    action: SignedPermutation

    def observation(self, obs: Observation) -> Observation:
        return Observation(self.policy(obs.policy), self.critic(obs.critic))


def concatenate(parts: list[SignedPermutation]) -> SignedPermutation:
    """The map of several stretches laid end to end."""
    sizes = np.cumsum([0] + [len(p.perm) for p in parts])
    perm = [np.asarray(p.perm) + start for p, start in zip(parts, sizes, strict=False)]
    return SignedPermutation(np.concatenate(perm), np.concatenate([p.sign for p in parts]))
