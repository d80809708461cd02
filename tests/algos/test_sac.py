"""SAC: its density by hand, its bounds, its noise at the start."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxrl_hw import NetConfig
from jaxrl_hw.algos import sac, sac_nets
from jaxrl_hw.algos.networks.critic import Critics, project
from jaxrl_hw.algos.networks.mlp import MLP
from jaxrl_hw.algos.off_policy import blend, weighted_mean
from jaxrl_hw.algos.sac_settings import SACConfig
from jaxrl_hw.types import EnvSpec, Observation

NET = NetConfig(policy=(8,), value=(8,), init_std=0.3)
SMALL = SACConfig(buffer_size=1000, batch_size=16, gradient_steps=1)
LIMIT = np.array([1.0, 4.0], np.float32)
SPEC = EnvSpec(3, 4, 2, action_limit=LIMIT)


def test_the_density_of_squashed_actions_sums_to_one() -> None:
    # one motor with limit 2: the density of a Gaussian x of mean 0.3 and deviation 0.7, squashed
    x = jnp.linspace(-8.0, 8.0, 20_001)
    action = 2.0 * jnp.tanh(x)
    log_normal = -0.5 * ((x - 0.3) / 0.7) ** 2 - jnp.log(0.7 * jnp.sqrt(2.0 * jnp.pi))
    density = np.exp(log_normal - sac_nets.log_stretch(x, jnp.array(2.0)))
    inner = np.abs(np.asarray(action)) < 1.999
    whole = np.trapezoid(np.where(inner, density, 0.0), np.asarray(action))
    np.testing.assert_allclose(whole, 1.0, atol=2e-3)
    slope = np.gradient(np.asarray(action, np.float64), np.asarray(x, np.float64))
    some = slice(8_000, 12_000)
    stretch = np.exp(sac_nets.log_stretch(x, jnp.array(2.0)))
    np.testing.assert_allclose(stretch[some], slope[some], rtol=1e-3)


def test_exploration_begins_at_the_settings_noise_in_units_of_action() -> None:
    made = sac.make(SMALL, NET, SPEC)
    learner = made.init(jax.random.key(0))
    obs = Observation(jnp.zeros((4000, 3)), jnp.zeros((4000, 4)))
    action, _, _ = made.act(learner, obs, jax.random.key(1))
    np.testing.assert_allclose(np.std(action[:, 1]), 0.3, rtol=0.05)
    assert (np.abs(action) <= LIMIT).all()


def test_without_exploration_it_acts_as_its_file_does() -> None:
    made = sac.make(replace(SMALL, layer_norm=False), NET, SPEC)
    learner = made.init(jax.random.key(0))
    obs = jax.random.normal(jax.random.key(1), (16, 3))
    parts = made.parts(learner)
    layers = parts.weights["params"]
    out = jax.nn.elu(obs @ layers["Dense_0"]["kernel"]) @ layers["Dense_1"]["kernel"]
    assert out.shape == (16, 2), "the mean alone"
    np.testing.assert_allclose(
        made.policy(learner, obs)[0], LIMIT * np.tanh(out + layers["Dense_1"]["bias"]), atol=1e-5
    )


def test_targets_follow_by_a_share() -> None:
    np.testing.assert_allclose(blend(jnp.array(1.0), jnp.array(5.0), 0.25), 2.0)


def test_samples_without_weight_do_not_count() -> None:
    np.testing.assert_allclose(weighted_mean(jnp.array([1.0, 9.0]), jnp.array([1.0, 0.0])), 1.0)
    np.testing.assert_allclose(weighted_mean(jnp.array([9.0]), jnp.array([0.0])), 0.0)


def test_a_distribution_keeps_its_mean_when_it_moves_and_ends_at_the_ends() -> None:
    returns, share = jnp.array([-2.0, -1.0, 0.0, 1.0, 2.0]), jnp.array([[0.0, 0.5, 0.5, 0.0, 0.0]])
    # -1 and 0 become 0.25 + 0.5 x: -0.25 and 0.25
    moved = project(share, 0.25 + 0.5 * returns[None], returns)
    np.testing.assert_allclose(moved, [[0.0, 0.125, 0.75, 0.125, 0.0]], atol=1e-6)
    np.testing.assert_allclose(project(share, returns[None] + 9.0, returns), [[0, 0, 0, 0, 1.0]])


def test_distributional_critics_learn_what_critics_of_a_value_do() -> None:
    obs, action = jax.random.normal(jax.random.key(0), (64, 3)), jnp.zeros((64, 2))
    reward, stays, nothing = obs[:, 0], jnp.full(64, 0.5), jnp.zeros(64)
    learned = []
    for returns in (None, jnp.linspace(-6.0, 6.0, 61)):
        critics = Critics(MLP((32,), 1 if returns is None else 61, "elu"), returns)
        keys = jax.random.split(jax.random.key(1), 2)
        params = jax.vmap(lambda k, c=critics: c.mlp.init(k, jnp.zeros(5)))(keys)
        rule = optax.adam(1e-2)

        @jax.jit
        def fit(params, state, critics=critics, rule=rule):
            out = critics.lower(critics.outputs(params, obs, action))
            target = critics.target(out, reward, stays, nothing)
            gradient = jax.grad(
                lambda p: critics.loss(critics.outputs(p, obs, action), target).mean()
            )(params)
            change, state = rule.update(gradient, state)
            return optax.apply_updates(params, change), state

        state = rule.init(params)
        for _ in range(400):
            params, state = fit(params, state)
        learned.append(critics.values(critics.outputs(params, obs, action)).mean(axis=0))
    # the same observation follows for ever: reward / (1 - 0.5)
    for values in learned:
        np.testing.assert_allclose(values, 2.0 * reward, atol=0.25)
