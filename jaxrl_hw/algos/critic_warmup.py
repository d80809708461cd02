"""A critic's warm-up: the policy is frozen until a new value network has learned its worth.

With a new value network a trained policy's advantages are noise at first, and within some
iterations the policy would lose what it can.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax


def freeze_policy(
    adam: optax.GradientTransformation, minibatches: int
) -> optax.GradientTransformation:
    """Adam that changes only the value network in its first `minibatches`.

    Its moments follow the policy's gradient meanwhile, so that the policy's first step is no larger
    than the others. Its state is Adam's own, which counts minibatches already.
    """

    def update(gradient: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        changes, after = adam.update(gradient, state, params)
        moves = state[0].count >= minibatches
        frozen = jax.tree.map(lambda x: jnp.where(moves, x, jnp.zeros_like(x)), changes)
        return frozen._replace(value=changes.value), after

    return optax.GradientTransformation(adam.init, update)
