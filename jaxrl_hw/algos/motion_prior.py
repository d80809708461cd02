"""Behaviour cloning: a fresh policy network is fitted to a motion that is known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import optax
from jax import Array, lax

from jaxrl_hw.algos.networks import normalize
from jaxrl_hw.algos.networks.policy_net import PolicyNet
from jaxrl_hw.types import Motion

SAMPLES, MINIBATCH, EPOCHS = 8192, 256, 6
"""192 steps of Adam: on stepping in place they explain 99 % of the actions' variance."""


def clone_motion(
    policy: PolicyNet,
    params: Any,
    motion: Motion,
    key: Array,
    acted: Callable[[Array], Array] = lambda outputs: outputs,
) -> Any:
    """A network's fresh parameters, fitted to a motion by regression, without a memory of earlier
    steps.

    acted: outputs [..., K] -> the action that they stand for [..., A]. Consumes key.
    """
    samples = jax.vmap(motion)(jax.random.split(key, SAMPLES))
    parts = jax.tree.map(lambda x: x.reshape(-1, MINIBATCH, x.shape[-1]), samples)
    adam = optax.adam(optax.linear_schedule(3e-3, 0.0, EPOCHS * SAMPLES // MINIBATCH))

    def error(params: Any, seen: Array, action: Array) -> Array:
        stats = normalize.init(seen.shape[-1])  # it is normalized
        did, _ = policy.step(params, stats, policy.start(len(seen)), seen)
        return ((acted(did) - action) ** 2).mean()

    def step(carry: tuple[Any, Any], part: Any) -> tuple[tuple[Any, Any], None]:
        params, opt_state = carry
        change, opt_state = adam.update(jax.grad(error)(params, *part), opt_state)
        return (optax.apply_updates(params, change), opt_state), None

    def epoch(carry: tuple[Any, Any], _: None) -> tuple[tuple[Any, Any], None]:
        return lax.scan(step, carry, parts)

    (params, _), _ = lax.scan(epoch, (params, adam.init(params)), None, length=EPOCHS)
    return params
