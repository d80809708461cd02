"""The mean of a policy's weights over the latest part of a run.

Weights that are still learning oscillate around their goal, and so does the robot's behaviour.
Their mean does not (Polyak and Juditsky 1992, doi:10.1137/0330046). Evaluation and export use the
mean; experience is collected with the weights themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array


class PolicyMean(NamedTuple):
    """Part of the optimizer's state, so that checkpoints save it."""

    taken: Array  # int32 [], minibatches averaged over
    policy: Any  # as the policy's parameters


def follow(part: float) -> optax.GradientTransformation:
    """Leaves updates as they are, and averages the weights that follow from them.

    After t minibatches the mean covers about the last `part` of them; older ones count less (Shamir
    and Zhang 2013, arXiv:1212.1824, section 4).

    Args:
      part: from 0 to 1, above 0.
    """

    def init(params: Any) -> PolicyMean:
        return PolicyMean(jnp.zeros((), jnp.int32), jax.tree.map(jnp.copy, params.policy))

    def update(changes: Any, state: PolicyMean, params: Any = None) -> tuple[Any, PolicyMean]:
        taken = state.taken + 1
        weight = jnp.minimum(1.0, 1.0 / (part * taken))
        now = optax.apply_updates(params.policy, changes.policy)
        mean = jax.tree.map(lambda m, x: m + (weight * (x - m)).astype(m.dtype), state.policy, now)
        return changes, PolicyMean(taken, mean)

    return optax.GradientTransformation(init, update)


def averaged(policy: Any, opt_state: Any) -> Any:
    """A policy's mean weights where the optimizer follows them, else those that it has."""
    means = [s.policy for s in opt_state.inner_state if isinstance(s, PolicyMean)]
    return means[0] if means else policy


def restarted(opt_state: Any, policy: Any) -> Any:
    """The optimizer's state where the policy's weights have been replaced by these."""
    inner = opt_state.inner_state
    anew = (s._replace(policy=policy) if isinstance(s, PolicyMean) else s for s in inner)
    return opt_state._replace(inner_state=tuple(anew))
