"""DQN: its targets by hand, its exploration, its dueling network."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw import NetConfig
from jaxrl_hw.algos import dqn
from jaxrl_hw.algos.dqn_settings import DQNConfig
from jaxrl_hw.algos.networks.heads import apply_head
from jaxrl_hw.types import MILLION, Batch, EnvSpec, Observation

SMALL = DQNConfig(buffer_size=1000, batch_size=16, widths=(8,), gradient_steps=1)
ACTIONS = np.linspace(-1.0, 1.0, 3, dtype=np.float32)[:, None]
SPEC = EnvSpec(2, 2, 1, action_set=ACTIONS)


def test_the_network_chooses_and_its_target_values() -> None:
    now, target = jnp.array([[1.0, 3.0]]), jnp.array([[10.0, 2.0]])
    reward, discount = jnp.array([0.5]), jnp.array([0.9])
    double = dqn.targets(SMALL, now, target, reward, discount)
    np.testing.assert_allclose(double, [0.5 + 0.9 * 2.0])
    plain = dqn.targets(replace(SMALL, double=False), now, target, reward, discount)
    np.testing.assert_allclose(plain, [0.5 + 0.9 * 10.0])


def test_a_dueling_value_is_the_value_and_the_advantage_above_the_mean() -> None:
    out = jnp.array([[1.0, 2.0, 6.0, 10.0]])  # three advantages of mean 3, a value of 10
    np.testing.assert_allclose(dqn.dueling(out, 3), [[8.0, 9.0, 13.0]])
    np.testing.assert_array_equal(dqn.dueling(out, 4), out)


@pytest.mark.parametrize("steps", [0, 250, 1000])
def test_epsilon_falls_linearly_with_env_steps(steps: int) -> None:
    config = replace(SMALL, epsilon_start=1.0, epsilon_end=0.2, epsilon_steps=1000)
    nothing = Observation(jnp.zeros((5, 10, 2)), jnp.zeros((5, 10, 2)))
    none = jnp.zeros((5, 10), bool)
    batch = Batch(nothing, jnp.zeros((5, 10, 1)), jnp.zeros((5, 10)), nothing, none, none, {})
    before = jnp.array([steps // MILLION, steps % MILLION], jnp.uint32)
    got = dqn.epsilon_after(config, batch._replace(env_steps=before))
    expected = max(0.2, 1.0 - 0.8 * (steps + 50) / 1000)
    np.testing.assert_allclose(got, expected, rtol=1e-5)


@pytest.mark.parametrize("dueling", [False, True])
def test_it_acts_from_the_set_and_its_file_acts_alike(dueling: bool) -> None:
    made = dqn.make(replace(SMALL, dueling=dueling), NetConfig(), SPEC)
    learner = made.init(jax.random.key(0))
    obs = jax.random.normal(jax.random.key(1), (64, 2))
    best, _ = made.policy(learner, obs)
    assert set(np.unique(best)) <= set(ACTIONS[:, 0])
    parts = made.parts(learner)
    assert parts.weights["params"]["Dense_1"]["bias"].shape == (3,)
    hidden = jax.nn.elu(obs @ parts.weights["params"]["Dense_0"]["kernel"])
    last = parts.weights["params"]["Dense_1"]
    out = hidden @ last["kernel"] + last["bias"]
    sure = np.diff(np.sort(out, axis=-1)[:, -2:])[:, 0] > 1e-5
    np.testing.assert_array_equal(np.asarray(apply_head(parts.head, out))[sure], best[sure])
    # at the start every action is random
    actions, extras, _ = made.act(learner, Observation(obs, obs), jax.random.key(2))
    np.testing.assert_array_equal(actions, ACTIONS[extras["chosen"]])
    assert len(np.unique(actions)) == 3
