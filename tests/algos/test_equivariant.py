"""Networks that treat a robot and its mirror image alike, by construction."""

from __future__ import annotations

from dataclasses import replace

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxrl_hw
from jaxrl_hw.algos.networks.equivariant import INVARIANT, EquivariantMLP, basis_of
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.config.presets import preset_config
from jaxrl_hw.config.validation import check
from jaxrl_hw.errors import UserError
from jaxrl_hw.types import Observation, SignedPermutation

MIRROR = SignedPermutation(np.array([0, 1, 3, 2, 5, 4]), np.array([1, -1, 1, 1, -1, -1.0]))
ACTION = SignedPermutation(np.array([1, 0, 2]), np.array([-1, -1, -1.0]))
TWICE = SignedPermutation(np.concatenate([MIRROR.perm, MIRROR.perm + 6]), np.tile(MIRROR.sign, 2))
NET = EquivariantMLP((8, 6), basis_of(MIRROR, 2), basis_of(ACTION))
X = jax.random.normal(jax.random.key(0), (16, 12))


def any_weights(net: EquivariantMLP = NET) -> dict:
    """Weights that nobody chose: not even symmetric ones."""
    fresh = net.init(jax.random.key(1), X)
    leaves, form = jax.tree.flatten(fresh)
    keys = jax.random.split(jax.random.key(2), len(leaves))
    noisy = [
        leaf + jax.random.normal(key, leaf.shape) for leaf, key in zip(leaves, keys, strict=True)
    ]
    return jax.tree.unflatten(form, noisy)


def test_the_mirror_image_of_the_input_gives_that_of_the_output_for_any_weights():
    weights = any_weights()
    out = NET.apply(weights, X)
    assert float(jnp.abs(out).max()) > 0.1
    chex.assert_trees_all_close(NET.apply(weights, TWICE(X)), ACTION(out), atol=1e-5)


def test_a_value_is_that_of_the_mirror_image():
    net = EquivariantMLP((8, 6), basis_of(MIRROR, 2), INVARIANT)
    weights = any_weights(net)
    value = net.apply(weights, X)
    assert value.shape == (16, 1)
    assert float(value.std()) > 0.1
    chex.assert_trees_all_close(net.apply(weights, TWICE(X)), value, atol=1e-5)


def test_a_fresh_one_is_a_plain_perceptron_with_orthogonal_layers():
    weights = NET.init(jax.random.key(1), X)
    plain = MLP((8, 6), 3)
    chex.assert_trees_all_equal_shapes(weights, plain.init(jax.random.key(1), X))
    chex.assert_trees_all_close(plain.apply(weights, X), NET.apply(weights, X), atol=1e-5)
    first = np.asarray(weights["params"]["Dense_0"]["kernel"])
    np.testing.assert_allclose(np.linalg.svd(first, compute_uv=False), 2.0**0.5, rtol=1e-4)


def test_gradient_descent_keeps_it_a_plain_perceptron():
    def loss(weights: dict) -> jax.Array:
        return ((NET.apply(weights, X) - 1.0) ** 2).mean()

    weights = NET.init(jax.random.key(1), X)
    before = loss(weights)
    for _ in range(20):
        weights = jax.tree.map(lambda w, g: w - 0.05 * g, weights, jax.grad(loss)(weights))
    assert loss(weights) < 0.9 * before
    chex.assert_trees_all_close(MLP((8, 6), 3).apply(weights, X), NET.apply(weights, X), atol=1e-5)


@pytest.mark.slow
def test_a_robots_policy_stays_symmetric_while_it_learns():
    config = replace(preset_config("g1_12dof"), num_envs=8, threads=1)
    assert config.ppo.symmetry == "network"
    config = jaxrl_hw.make_plan(config).config
    env = jaxrl_hw.make_env(config)
    algorithm = jaxrl_hw.make_algorithm(config, env)
    state = jaxrl_hw.init_train_state(env, algorithm, 0)
    step = jaxrl_hw.make_train_step(env, algorithm)
    for _ in range(2):
        state, metrics = step(state)
    assert "loss/symmetry" not in metrics
    mirror = env.symmetry
    obs = state.env_state.envs.obs
    reflected = Observation(mirror.policy(obs.policy), mirror.critic(obs.critic))
    act = jax.jit(lambda obs: algorithm.policy(state.learner, obs)[0])
    action = act(obs.policy)
    chex.assert_trees_all_close(act(reflected.policy), mirror.action(action), atol=1e-4)
    np.testing.assert_array_equal(
        state.params.log_std, np.asarray(state.params.log_std)[mirror.action.perm]
    )


def test_an_odd_width_is_bad_input_and_a_gru_has_the_mirror_loss():
    config = preset_config("g1_12dof")
    odd = replace(config, num_envs=8, net=replace(config.net, policy=(255, 128)))
    with pytest.raises(UserError, match="255"):
        jaxrl_hw.make_plan(check(odd))
    gru = replace(config, num_envs=8, net=replace(config.net, memory="gru"))
    assert jaxrl_hw.make_plan(check(gru)).config.net.memory == "gru"
