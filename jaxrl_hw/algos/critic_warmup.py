"""A policy that waits for its value network.

Where a trained policy meets a value network that is new, its advantages are noise at first, and
what was learned is lost to them within some iterations. Until the value network has learned what
the policy is worth, only it moves.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax


def hold(adam: optax.GradientTransformation, minibatches: int) -> optax.GradientTransformation:
    """Adam that changes nothing but the value network for its first so many minibatches.

    Its moments follow the policy's gradient meanwhile, so that the policy's first step is no larger
    than the others. Its state is Adam's own, which counts minibatches already.
    """

    def update(gradient: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        changes, after = adam.update(gradient, state, params)
        moves = state[0].count >= minibatches
        still = jax.tree.map(lambda x: jnp.where(moves, x, jnp.zeros_like(x)), changes)
        return still._replace(value=changes.value), after

    return optax.GradientTransformation(adam.init, update)
