"""Metrics of survival models, beside their definitions and other libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens.numerics.prefix_counts import count_below
from gpuens.survival_metrics import (
    brier_scores,
    concordance,
    deviance_residuals,
    integrated_brier_score,
    martingale_residuals,
    uno_concordance,
)


def draw(seed: int, n: int, n_times: int, n_scores: int) -> tuple[np.ndarray, ...]:
    """Events, times and scores; the last row is censored later than all others."""
    rng = np.random.default_rng(seed)
    event, time = rng.random(n) < 0.6, rng.integers(1, n_times, n) * 1.0
    event[-1], time[-1] = False, n_times
    return event, time, rng.integers(0, n_scores, n) / 4.0


def all_pairs(event: Any, time: Any, score: Any, weight: Any) -> float:
    """Harrell's definition, pair by pair."""
    right = total = 0.0
    for i in np.flatnonzero(event):
        later = (time > time[i]) | ((time == time[i]) & ~event)
        distance = score[i] - score[later]
        counted = np.where(np.abs(distance) <= 1e-8, 0.5, distance > 0)
        right += weight[i] * (weight[later] * counted).sum()
        total += weight[i] * weight[later].sum()
    return right / total


@pytest.mark.parametrize("n_times", [6, 400])
@pytest.mark.parametrize("n_scores", [3, 1000])
def test_concordance_counts_all_pairs(n_times, n_scores):
    event, time, score = draw(0, 70, n_times, n_scores)
    score[:5] += 1e-9  # tied with its neighbours
    ones = np.ones(70)
    assert concordance((event, time), score) == all_pairs(event, time, score, ones)
    weight = np.random.default_rng(1).integers(0, 4, 70) / 8.0
    found = concordance((event, time), score, sample_weight=weight)
    assert found == pytest.approx(all_pairs(event, time, score, weight), rel=1e-14)
    assert concordance((event, time), -score) == pytest.approx(
        1.0 - concordance((event, time), score)
    )


def test_uno_by_hand():
    """Of four rows one is censored at 2: G = 1 before and 2/3 from then on. The event at 1 has two
    pairs of weight 1 and one with the censored row, that at 3 one pair of weight 9/4 = 1/G²."""
    y = [True, False, True, True], [1.0, 2.0, 3.0, 4.0]
    assert uno_concordance(y, y, [0.9, 0.1, 0.5, 0.3]) == 1.0
    assert uno_concordance(y, y, [0.9, 0.1, 0.3, 0.5]) == pytest.approx(3.0 / (3.0 + 9.0 / 4.0))
    assert uno_concordance(y, y, [0.9, 0.1, 0.3, 0.5], tau=2.5) == 1.0


def test_brier_by_hand():
    """Without censoring the score is the mean squared distance from 0 or 1."""
    y = [True, True, True, False], [1.0, 2.0, 3.0, 4.0]
    survival = np.array([[0.2, 0.1], [0.7, 0.3], [0.9, 0.4], [0.8, 0.9]])
    expected = ((survival - [[0, 0], [1, 0], [1, 1], [1, 1]]) ** 2).mean(axis=0)
    np.testing.assert_allclose(brier_scores(y, y, survival, [1.5, 2.5]), expected, rtol=1e-15)
    assert integrated_brier_score(y, y, survival, [1.5, 2.5]) == pytest.approx(expected.mean())


def test_residuals_by_hand():
    y = [True, False], [3.0, 5.0]
    np.testing.assert_array_equal(martingale_residuals(y, [0.25, 0.5]), [0.75, -0.5])
    expected = [np.sqrt(-2.0 * (0.75 + np.log(0.25))), -1.0]
    np.testing.assert_allclose(deviance_residuals(y, [0.25, 0.5]), expected, rtol=1e-15)


@pytest.mark.parametrize("n_times", [20, 500])
def test_metrics_are_those_of_scikit_survival(n_times):
    metrics = pytest.importorskip("sksurv.metrics")
    surv = pytest.importorskip("sksurv.util").Surv
    event, time, _ = draw(1, 80, n_times, 30)
    own_event, own_time, score = draw(2, 60, n_times - 1, 30)
    train, test = surv.from_arrays(event, time), surv.from_arrays(own_event, own_time)
    found = concordance(test, score)
    assert found == pytest.approx(metrics.concordance_index_censored(own_event, own_time, score)[0])
    for tau in (None, n_times / 2):
        expected = metrics.concordance_index_ipcw(train, test, score, tau=tau)[0]
        assert uno_concordance(train, test, score, tau=tau) == pytest.approx(expected)
    times = np.quantile(own_time, [0.2, 0.5, 0.8]) + 0.25
    survival = np.sort(np.random.default_rng(3).random((60, 3)))[:, ::-1]
    expected = metrics.brier_score(train, test, survival, times)[1]
    np.testing.assert_allclose(brier_scores(train, test, survival, times), expected)
    expected = metrics.integrated_brier_score(train, test, survival, times)
    assert integrated_brier_score(train, test, survival, times) == pytest.approx(expected)


def test_concordance_is_that_of_lifelines():
    utils = pytest.importorskip("lifelines.utils")
    event, time, score = draw(3, 80, 20, 10)
    expected = utils.concordance_index(time, -score, event)
    assert concordance((event, time), score) == pytest.approx(expected)


@pytest.mark.parametrize("n", [1, 2, 7, 64])
def test_counting_below(n):
    rng = np.random.default_rng(n)
    values, weight = rng.integers(0, n, n), rng.integers(0, 5, n)
    until, bound = rng.integers(0, n + 1, 40), rng.integers(0, n + 1, 40)
    expected = [(weight[:u] * (values[:u] < b)).sum() for u, b in zip(until, bound, strict=True)]
    np.testing.assert_array_equal(count_below(values, weight, until, bound), expected)


Y = [True, False, True], [1.0, 2.0, 3.0]


@pytest.mark.parametrize("arguments, message", [
    ((Y, [1.0, 2.0]), "score must hold a number for each of the 3 rows"),
    ((Y, [1.0, 2.0, np.nan]), "score must be finite"),
    (((Y[1], Y[0]), [1.0, 2.0, 3.0]), r"boolean, or 0 and 1.*in this order"),
    ((([False] * 3, Y[1]), [1.0, 2.0, 3.0]), "No pair of rows is comparable"),
    (((Y[0], [1.0, -2.0, 3.0]), [1.0, 2.0, 3.0]), r"finite and not negative, got -2.0 in row 1"),
    (((Y[0], [1.0, 2.0]), [1.0, 2.0, 3.0]), "an event and a time for each row"),
    ((np.zeros(3), [1.0, 2.0, 3.0]), r"structured array.*got ndarray of dtype float64"),
])  # fmt: skip
def test_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        concordance(*arguments)


def test_bad_times():
    with pytest.raises(ValueError, match="y has times up to 9, but censoring is only known up to"):
        uno_concordance(([True, True], [1.0, 4.0]), ([True, True], [1.0, 9.0]), [1.0, 2.0])
    with pytest.raises(ValueError, match="all rows of y_train are censored"):
        uno_concordance(([True, False], [1.0, 2.0]), ([True, True], [2.0, 2.0]), [1.0, 2.0])
    with pytest.raises(ValueError, match="below 3, the last time of y"):
        brier_scores(Y, Y, np.ones((3, 1)), [3.0])
    with pytest.raises(ValueError, match=r"3 rows and 2 times, got shape \(3, 1\)"):
        brier_scores(Y, Y, np.ones((3, 1)), [1.0, 2.0])
    with pytest.raises(ValueError, match="at least two entries"):
        integrated_brier_score(Y, Y, np.ones((3, 1)), [1.0])
    with pytest.raises(ValueError, match="ascending"):
        brier_scores(Y, Y, np.ones((3, 2)), [2.0, 1.0])
    with pytest.raises(ValueError, match="must not be negative, got -1.0"):
        martingale_residuals(Y, [1.0, -1.0, 0.0])
    with pytest.raises(ValueError, match="must be positive for rows with an event"):
        deviance_residuals(Y, [0.0, 1.0, 1.0])
