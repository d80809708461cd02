"""SAC: its density by hand, its bounds, its noise at the start."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from jaxrl_hw import NetConfig
from jaxrl_hw.algos import sac
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
    density = np.exp(log_normal - sac.log_stretch(x, jnp.array(2.0)))
    inner = np.abs(np.asarray(action)) < 1.999
    whole = np.trapezoid(np.where(inner, density, 0.0), np.asarray(action))
    np.testing.assert_allclose(whole, 1.0, atol=2e-3)
    slope = np.gradient(np.asarray(action, np.float64), np.asarray(x, np.float64))
    some = slice(8_000, 12_000)
    stretch = np.exp(sac.log_stretch(x, jnp.array(2.0)))
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
