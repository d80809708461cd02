"""Generalized advantage estimation against numbers worked out by hand."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jaxrl_hw.algos.returns import following, gae

GAMMA, LAMBDA = 0.5, 0.8
# gamma * lambda = 0.4
REWARD, VALUE, NEXT_VALUE = [1.0, 2.0, 3.0], [0.5, 1.0, 2.0], [1.0, 2.0, 4.0]


def advantages(terminated: list[bool], truncated: list[bool]) -> np.ndarray:
    """Of one environment, T = 3."""
    columns = (REWARD, VALUE, NEXT_VALUE, terminated, truncated)
    arrays = [jnp.asarray(column)[:, None] for column in columns]
    return np.asarray(gae(*arrays, GAMMA, LAMBDA))[:, 0]


def test_an_episode_that_goes_on() -> None:
    # delta_2 = 3 + 0.5 * 4 - 2   = 3.0    A_2 = 3.0
    # delta_1 = 2 + 0.5 * 2 - 1   = 2.0    A_1 = 2.0 + 0.4 * 3.0 = 3.2
    # delta_0 = 1 + 0.5 * 1 - 0.5 = 1.0    A_0 = 1.0 + 0.4 * 3.2 = 2.28
    np.testing.assert_allclose(advantages([False] * 3, [False] * 3), [2.28, 3.2, 3.0], rtol=1e-6)


def test_termination_in_the_middle_stops_values_and_advantages() -> None:
    # delta_1 = 2 + 0 - 1 = 1.0 and nothing flows back over it: A_1 = 1.0
    # A_0 = 1.0 + 0.4 * 1.0 = 1.4; A_2 belongs to the next episode and stays 3.0
    got = advantages([False, True, False], [False] * 3)
    np.testing.assert_allclose(got, [1.4, 1.0, 3.0], rtol=1e-6)


def test_truncation_in_the_middle_keeps_the_value_and_stops_advantages() -> None:
    # delta_1 = 2 + 0.5 * 2 - 1 = 2.0 bootstraps from its own final state: A_1 = 2.0
    # A_0 = 1.0 + 0.4 * 2.0 = 1.8; A_2 stays 3.0
    got = advantages([False] * 3, [False, True, False])
    np.testing.assert_allclose(got, [1.8, 2.0, 3.0], rtol=1e-6)


def test_truncation_at_the_end_bootstraps_and_termination_does_not() -> None:
    # delta_2 = 3 + 0.5 * 4 - 2 = 3.0 truncated, 3 + 0 - 2 = 1.0 terminated
    np.testing.assert_allclose(advantages([False] * 3, [False, False, True])[2], 3.0, rtol=1e-6)
    np.testing.assert_allclose(advantages([False, False, True], [False] * 3)[2], 1.0, rtol=1e-6)


def test_a_value_that_is_not_a_number_behind_a_termination_does_no_harm() -> None:
    columns = (REWARD, VALUE, [1.0, float("nan"), 4.0], [False, True, False], [False] * 3)
    arrays = [jnp.asarray(column)[:, None] for column in columns]
    np.testing.assert_allclose(gae(*arrays, GAMMA, LAMBDA)[:, 0], [1.4, 1.0, 3.0], rtol=1e-6)


def test_environments_do_not_mix() -> None:
    def pair(a: list[float], b: list[float]) -> jnp.ndarray:
        return jnp.asarray([a, b]).T

    done = jnp.asarray([[False, False, False], [False, True, False]]).T
    never = jnp.zeros((3, 2), bool)
    got = gae(
        pair(REWARD, REWARD),
        pair(VALUE, VALUE),
        pair(NEXT_VALUE, NEXT_VALUE),
        done,
        never,
        0.5,
        0.8,
    )
    np.testing.assert_allclose(got.T, [[2.28, 3.2, 3.0], [1.4, 1.0, 3.0]], rtol=1e-6)


def test_lambda_one_gives_returns_and_lambda_zero_gives_one_step_errors() -> None:
    arrays = [jnp.asarray(c)[:, None] for c in (REWARD, VALUE, [1.0, 2.0, 4.0])]
    ends = [jnp.asarray(c)[:, None] for c in ([False, False, True], [False] * 3)]
    # returns: 3; 2 + 0.5 * 3 = 3.5; 1 + 0.5 * 3.5 = 2.75; the values taken off: 2.25, 2.5, 1
    np.testing.assert_allclose(
        gae(arrays[0], arrays[1], jnp.asarray([[1.0], [2.0], [9.0]]), *ends, 0.5, 1.0)[:, 0],
        [2.25, 2.5, 1.0],
        rtol=1e-6,
    )
    # one-step errors: the deltas above, the last one without its value
    np.testing.assert_allclose(gae(*arrays, *ends, 0.5, 0.0)[:, 0], [1.0, 2.0, 1.0], rtol=1e-6)


def test_what_follows_is_the_next_step_s_value_and_an_episode_s_own_last_one() -> None:
    steps, environments = 4, 3
    rng = np.random.default_rng(0)
    obs, last = rng.normal(size=(2, steps, environments, 2)).astype(np.float32)
    ended = np.zeros((2, steps, environments), bool)
    terminated, truncated = ended
    terminated[1, 0] = truncated[2, 0] = truncated[0, 1] = truncated[1, 1] = truncated[3, 2] = True
    goes_on = ~(terminated | truncated)[:-1]
    last[:-1][goes_on] = obs[1:][goes_on]  # an episode that goes on acts on what it has seen

    looks: list[tuple[int, ...]] = []

    def value_of(x: jnp.ndarray) -> jnp.ndarray:
        looks.append(x.shape)
        return jnp.sin(x).sum(-1)

    found = following(value_of, value_of(obs), jnp.asarray(last), jnp.asarray(truncated))
    np.testing.assert_allclose(
        np.asarray(found)[~terminated], np.sin(last).sum(-1)[~terminated], rtol=1e-5
    )
    assert set(looks[1:]) == {(environments, 2)}  # never the whole batch a second time
