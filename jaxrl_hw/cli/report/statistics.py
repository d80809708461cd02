"""Means, bands and tests over runs that differ only in their seed.

The test is the one that Colas et al., "A Hitchhiker's Guide to Statistical Comparisons of
Reinforcement Learning Algorithms" (2019), recommend for few seeds. The interquartile mean and its
interval are those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (2021), for one task. Their package rliable gives the same; it does not start beside
pandas 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

CONFIDENCE = 0.95
ALPHA = 1.0 - CONFIDENCE
FEWEST_FOR_IQM = 4
"""With fewer runs the middle half of them is no more than their mean."""
WELCH = "Welch's t-test"
_RESAMPLES = 2000


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Number of values, their mean, standard deviation, 95 % t-interval and interquartile mean.

    What takes more values than there are is None: two for the interval, `FEWEST_FOR_IQM` for `iqm`,
    `iqm_low` and `iqm_high`.
    """
    x = np.asarray(values, float)
    found: dict[str, Any] = dict.fromkeys(("std", "low", "high", "iqm", "iqm_low", "iqm_high"))
    found |= {"n": len(x), "mean": float(x.mean())}
    if len(x) >= 2:
        half = float(half_width(x[:, None])[0])
        found |= {"std": float(x.std(ddof=1))}
        found |= {"low": found["mean"] - half, "high": found["mean"] + half}
    if len(x) >= FEWEST_FOR_IQM:
        low, high = bootstrap_iqm(x)
        found |= {"iqm": float(stats.trim_mean(x, 0.25)), "iqm_low": low, "iqm_high": high}
    return found


def half_width(values: np.ndarray) -> np.ndarray:
    """Half of the 95 % t-interval of the mean over the rows of values [n, D], n at least 2: [D]."""
    n = len(values)
    factor = stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1) / np.sqrt(n)
    return np.asarray(factor * values.std(axis=0, ddof=1))


def bootstrap_iqm(values: np.ndarray, seed: int = 0) -> tuple[float, float]:
    """The 95 % percentile bootstrap interval of the interquartile mean of values [n]."""
    draws = np.random.default_rng(seed).integers(0, len(values), (_RESAMPLES, len(values)))
    means = stats.trim_mean(values[draws], 0.25, axis=1)
    low, high = np.quantile(means, (ALPHA / 2, 1 - ALPHA / 2))
    return float(low), float(high)


def difference(a: Sequence[float], b: Sequence[float]) -> dict[str, Any]:
    """Whether the mean of b differs from that of a: `difference` (b - a), its 95 % interval `low`
    and `high`, `p`, `test`, and where it cannot be tested `why`, with the others None."""
    found: dict[str, Any] = dict.fromkeys(("low", "high", "p", "test"))
    found |= {"difference": float(np.mean(b) - np.mean(a)), "why": ""}
    if min(len(a), len(b)) < 2:
        return found | {"why": "a test needs two runs or more of each, with other seeds"}
    if np.ptp(a) == 0 and np.ptp(b) == 0:
        return found | {"why": "the runs of each do not differ from each other"}
    result = stats.ttest_ind(b, a, equal_var=False)
    interval = result.confidence_interval(CONFIDENCE)
    bounds = {"low": float(interval.low), "high": float(interval.high)}
    return found | bounds | {"p": float(result.pvalue), "test": WELCH}


def holm(p_values: Sequence[float]) -> list[float]:
    """p-values corrected for their number by Holm's method, in the order given."""
    order, corrected, highest = np.argsort(p_values), [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = highest
    return corrected
