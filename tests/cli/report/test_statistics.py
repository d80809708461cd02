"""Means, intervals and tests of few values."""

from __future__ import annotations

import numpy as np
import pytest

from jaxrl_hw.cli.report.statistics import bootstrap_iqm, difference, holm, spread


def test_holm_multiplies_by_the_number_of_tests_that_are_left():
    # Holm (1979): the smallest times 4, the next times 3, ..., never falling
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


def test_the_interquartile_mean_leaves_out_the_outer_halves():
    found = spread([100.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -50.0])
    assert found["iqm"] == pytest.approx(4.5)
    assert found["mean"] == pytest.approx(9.625)
    assert found["iqm_low"] <= found["iqm"] <= found["iqm_high"]


def test_a_bootstrap_interval_covers_the_mean_about_as_often_as_it_says():
    draws = np.random.default_rng(0).normal(size=(200, 20))
    hits = [low <= 0.0 <= high for low, high in map(bootstrap_iqm, draws)]
    assert 0.85 < np.mean(hits) < 0.99


@pytest.mark.parametrize(
    ("values", "iqm", "interval"),
    [
        ([391, 402, 377, 420, 398], 397.0, (381.667, 414.0)),
        ([0.05, 0.061, 0.048, 0.093, 0.077, 0.055, 0.12, 0.066, 0.071, 0.058], 0.064667,
         (0.055333, 0.082333)),
    ],
)  # fmt: skip
def test_the_interquartile_mean_and_its_interval_are_those_of_rliable(values, iqm, interval):
    # rliable 1.2.0, get_interval_estimates with aggregate_iqm and 50,000 resamples
    found = spread(values)
    assert found["iqm"] == pytest.approx(iqm, rel=1e-4)
    assert (found["iqm_low"], found["iqm_high"]) == pytest.approx(interval, rel=0.03)


@pytest.mark.parametrize("values", [[3.0], [3.0, 4.0]])
def test_few_values_have_no_figures_that_take_more(values):
    found = spread(values)
    assert found["iqm"] is None
    assert (found["low"] is None) == (len(values) == 1)


def test_welch_s_interval_holds_the_difference_and_agrees_with_its_p():
    rng = np.random.default_rng(1)
    near = difference(rng.normal(0, 1, 8), rng.normal(0.2, 3, 8))
    far = difference(rng.normal(0, 1, 8), rng.normal(9, 3, 8))
    for found in (near, far):
        assert found["low"] < found["difference"] < found["high"]
        assert (found["p"] < 0.05) == (not found["low"] <= 0.0 <= found["high"])
    assert near["p"] > 0.05 > far["p"]


def test_equal_values_are_not_tested():
    found = difference([1.0, 1.0], [2.0, 2.0])
    assert (found["difference"], found["p"]) == (1.0, None)
    assert found["why"]
