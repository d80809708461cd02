"""An optimizer that leaves a policy alone until its value network has learned."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from jaxrl_hw.algos.optimizer import freeze_policy

RATE, WAITS = 1e-3, 400


class Weights(NamedTuple):
    policy: Any
    value: Any


def changes_of(adam: optax.GradientTransformation, frozen: jax.Array) -> Weights:
    """What noisy gradients change, step by step; [steps, 50] each. frozen: bool [steps]."""
    weights = Weights(jnp.zeros(50), jnp.zeros(50))

    adam, steps = optax.with_extra_args_support(adam), len(frozen)

    def step(state: Any, given: Any) -> tuple[Any, Weights]:
        key, waits = given
        gradient = 1.0 + jax.random.normal(key, (50,))
        change, state = adam.update(Weights(gradient, gradient), state, weights, frozen=waits)
        return state, change

    keys = jax.random.split(jax.random.key(0), steps)
    return jax.lax.scan(step, adam.init(weights), (keys, frozen))[1]


@pytest.mark.slow
def test_the_policy_waits_and_then_moves_as_if_it_had_not() -> None:
    frozen = jnp.arange(WAITS + 20) < WAITS
    free = changes_of(optax.adam(RATE), frozen)
    held = changes_of(freeze_policy(optax.adam(RATE)), frozen)
    np.testing.assert_array_equal(held.value, free.value)
    np.testing.assert_array_equal(held.policy[:WAITS], 0.0)
    np.testing.assert_array_equal(held.policy[WAITS:], free.policy[WAITS:])
    assert float(jnp.abs(held.policy[WAITS]).max()) < 1.5 * RATE, "no leap at its first step"


def test_its_state_is_adam_s_own() -> None:
    """So that a checkpoint has one form, whether the policy waited or not."""
    weights = Weights(jnp.zeros(2), jnp.zeros(2))
    plain, holding = optax.adam(RATE), freeze_policy(optax.adam(RATE))
    forms = (jax.tree.structure(a.init(weights)) for a in (plain, holding))
    assert len(set(forms)) == 1
