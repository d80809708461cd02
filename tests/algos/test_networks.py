"""Distributions against integrals, statistics against NumPy, networks against their promises."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxrl_hw.algos.networks import distributions, normalize
from jaxrl_hw.algos.networks.mlp import ACTIVATIONS, MLP
from jaxrl_hw.errors import UserError

MEAN_P, STD_P = np.array([0.3, -1.2]), np.array([0.5, 1.7])
MEAN_Q, STD_Q = np.array([-0.4, 0.1]), np.array([0.9, 0.6])


def bell(x: np.ndarray, mean: float, std: float) -> np.ndarray:
    """The normal density, written down once more."""
    return np.exp(-((x - mean) ** 2) / (2 * std**2)) / (std * math.sqrt(2 * math.pi))


def integral(values: np.ndarray, x: np.ndarray) -> float:
    return float(np.sum((values[1:] + values[:-1]) / 2 * np.diff(x)))


def test_log_prob_is_the_log_of_the_product_of_normal_densities() -> None:
    actions = np.array([[0.3, -1.2], [1.0, 2.0], [-3.0, 0.0]])
    wanted = [math.log(bell(a[0], 0.3, 0.5) * bell(a[1], -1.2, 1.7)) for a in actions]
    got = distributions.log_prob(jnp.asarray(actions), jnp.asarray(MEAN_P), jnp.log(STD_P))
    np.testing.assert_allclose(got, wanted, rtol=1e-5)  # float32 over float64


def test_entropy_is_the_integral_of_minus_p_log_p() -> None:
    total = 0.0
    for mean, std in zip(MEAN_P, STD_P, strict=True):
        x = np.linspace(mean - 12 * std, mean + 12 * std, 20_001)
        p = bell(x, mean, std)
        total -= integral(p * np.log(p), x)
    assert float(distributions.entropy(jnp.log(STD_P))) == pytest.approx(total, rel=1e-5)


def test_kl_divergence_is_the_integral_of_p_log_p_over_q() -> None:
    total = 0.0
    for mp, sp, mq, sq in zip(MEAN_P, STD_P, MEAN_Q, STD_Q, strict=True):
        x = np.linspace(mp - 12 * sp, mp + 12 * sp, 20_001)
        p = bell(x, mp, sp)
        log_q = -((x - mq) ** 2) / (2 * sq**2) - math.log(sq * math.sqrt(2 * math.pi))
        total += integral(p * (np.log(p) - log_q), x)
    args = jnp.asarray(MEAN_P), jnp.log(STD_P), jnp.asarray(MEAN_Q), jnp.log(STD_Q)
    assert float(distributions.kl_divergence(*args)) == pytest.approx(total, rel=1e-5)


def test_kl_divergence_of_a_distribution_from_itself_is_exactly_zero() -> None:
    mean, log_std = jnp.asarray(MEAN_P, jnp.float32), jnp.log(jnp.asarray(STD_P, jnp.float32))
    assert float(distributions.kl_divergence(mean, log_std, mean, log_std)) == 0.0


def test_samples_have_the_mean_and_spread_asked_for() -> None:
    count = 20_000
    mean = jnp.broadcast_to(jnp.asarray(MEAN_P, jnp.float32), (count, 2))
    drawn = np.asarray(distributions.sample(jax.random.key(0), mean, jnp.log(STD_P)))
    # 5 standard errors: std / sqrt(n) of a mean, std / sqrt(2 n) of a standard deviation
    assert np.all(np.abs(drawn.mean(0) - MEAN_P) < 5 * STD_P / math.sqrt(count))
    assert np.all(np.abs(drawn.std(0) - STD_P) < 5 * STD_P / math.sqrt(2 * count))
    assert abs(np.corrcoef(drawn.T)[0, 1]) < 5 / math.sqrt(count)


def test_statistics_in_parts_are_those_of_all_the_data() -> None:
    rng = np.random.default_rng(0)
    scale, offset = np.array([1.0, 50.0, 0.01]), np.array([0.0, -300.0, 2.0])
    parts = [rng.standard_normal(shape) * scale + offset for shape in [(5, 3), (4, 7, 3), (1, 3)]]
    stats = normalize.init(3)
    for part in parts:
        stats = normalize.update(stats, jnp.asarray(part, jnp.float32))
    data = np.concatenate([part.reshape(-1, 3) for part in parts])
    assert float(stats.seen) == len(data) == 34
    np.testing.assert_allclose(stats.mean, data.mean(0), rtol=1e-5, atol=1e-6)
    # values of 2.0 with a spread of 0.01 keep four digits of their deviation in float32
    np.testing.assert_allclose(stats.var, data.var(0), rtol=1e-3)


def test_before_any_data_normalizing_changes_nothing_in_range() -> None:
    x = jnp.array([-3.0, 0.0, 9.0])
    np.testing.assert_array_equal(normalize.normalize(normalize.init(3), x), x)


def test_normalized_values_are_centred_scaled_and_clipped() -> None:
    stats = normalize.RunningStats(jnp.float32(10), jnp.array([1.0, 1.0]), jnp.array([4.0, 4.0]))
    got = normalize.normalize(stats, jnp.array([[2.0, -3.0], [1e6, -1e6]]))
    np.testing.assert_allclose(got, [[0.5, -2.0], [10.0, -10.0]])
    np.testing.assert_allclose(normalize.normalize(stats, jnp.array([9.0, 1.0]), clip=3.0), [3, 0])


def test_an_entry_that_never_varies_is_centred_and_not_blown_up() -> None:
    stats = normalize.update(normalize.init(1), jnp.full((100, 1), 0.7))
    got = normalize.normalize(stats, jnp.array([[0.7], [0.71]]))
    np.testing.assert_allclose(got, [[0.0], [1.0]], atol=1e-3)  # at most 100 times its deviation


@pytest.mark.slow
def test_a_network_has_the_layers_it_was_told() -> None:
    net = MLP((6, 5), 2)
    params = net.init(jax.random.key(0), jnp.zeros(4))
    shapes = [layer["kernel"].shape for layer in params["params"].values()]
    assert shapes == [(4, 6), (6, 5), (5, 2)]
    assert net.apply(params, jnp.zeros((2, 6, 4))).shape == (2, 6, 2)


def test_a_network_is_its_layers_and_activations_and_nothing_else() -> None:
    net = MLP((6,), 2, "tanh")
    params = net.init(jax.random.key(1), jnp.zeros(4))
    x = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
    first, last = (jax.tree.map(np.asarray, params["params"][f"Dense_{i}"]) for i in (0, 1))
    hidden = np.tanh(x @ first["kernel"] + first["bias"])
    wanted = hidden @ last["kernel"] + last["bias"]
    np.testing.assert_allclose(net.apply(params, x), wanted, rtol=1e-5, atol=1e-6)


def test_a_small_last_layer_starts_near_zero() -> None:
    x = jax.random.normal(jax.random.key(0), (100, 4))
    size = {}
    for scale in (0.01, 1.0):
        net = MLP((6,), 2, out_scale=scale)
        size[scale] = float(jnp.abs(net.apply(net.init(jax.random.key(2), x), x)).mean())
    assert size[0.01] == pytest.approx(0.01 * size[1.0], rel=1e-3)


def test_bfloat16_keeps_float32_parameters_and_outputs() -> None:
    x = jax.random.normal(jax.random.key(0), (100, 4))
    exact, rough = MLP((6,), 2), MLP((6,), 2, dtype="bfloat16")
    params = rough.init(jax.random.key(3), x)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
    out = rough.apply(params, x)
    assert out.dtype == jnp.float32
    difference = float(jnp.abs(out - exact.apply(params, x)).max())
    # bfloat16 has 8 bits of mantissa: it must be felt, and be no more than a few of its roundings
    assert 1e-4 < difference < 0.05


def test_an_unknown_activation_names_those_there_are() -> None:
    with pytest.raises(UserError) as refused:
        MLP((4,), 1, "rel").init(jax.random.key(0), jnp.zeros(2))
    assert all(name in str(refused.value) for name in ('"rel"', *ACTIVATIONS))
