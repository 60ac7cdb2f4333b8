"""Losses of survival analysis: derivatives, ties, weights, and steps that are safe."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens import GradientBoostingRegressor
from gpuens.devices.placement import CPU
from gpuens.losses import AFT, Cox

NOTHING = np.empty(0)
WEIGHTS = {"without weights": NOTHING, "weighted": np.tile([1.0, 0.5, 0.0, 2.0], 15)}
TIES = ("efron", "breslow")
FAILURES = tuple(
    AFT(name, scale) for name in ("normal", "logistic", "extreme") for scale in (0.6, 3)
)
weighted = pytest.mark.parametrize("weight", WEIGHTS.values(), ids=WEIGHTS)


def target(n: int, seed: int, n_times: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Events and times with many ties; the first and the last row are censored."""
    rng = np.random.default_rng(seed)
    event, time = rng.random(n) < 0.6, rng.integers(1, n_times, n) * 1.0
    event[[0, -1]], time[[0, -1]] = False, (0.0, n_times + 1.0)
    return event, time


def partial_likelihood(event, time, weight, score, ties):
    """The negative logarithm as the papers have it, time by time; divided by the events."""
    total, events = 0.0, event & (weight > 0)
    for when in np.unique(time[events]):
        dying, at_risk = events & (time == when), time >= when
        m, size = dying.sum(), weight * np.exp(score)
        for k in range(m):
            share = k / m if ties == "efron" else 0.0
            left = size[at_risk].sum() - share * size[dying].sum()
            mean = weight[dying].sum() / m
            total += mean * np.log(left)
        total -= (weight * score)[dying].sum()
    return total / weight[events].sum()


def in_training(loss, y, weight):
    """The loss of a training, and the target as its rounds have it."""
    rows = loss.read_times(y, "y").T.copy()
    return loss.on_training_rows(rows, weight, np.zeros(1), CPU), rows


@weighted
@pytest.mark.parametrize("ties", TIES)
def test_the_partial_likelihood_and_its_derivatives(weight, ties):
    event, time = target(60, 0)
    score = np.random.default_rng(1).normal(size=60) * 2.0 + 30.0
    loss, y = in_training(Cox(ties), (event, time), weight)
    factor = weight if weight.size else np.ones(60)

    def value(score):
        return partial_likelihood(event, time, factor, score, ties)

    assert loss.mean(y, score[None], weight, CPU) == pytest.approx(value(score), rel=1e-13)
    counted = factor[event].sum()
    gradient, hessian = loss.shared(y, score[None], CPU)
    steps = 1e-5 * np.eye(60)
    slope = [(value(score + step) - value(score - step)) / 2e-5 * counted for step in steps]
    np.testing.assert_allclose(gradient * factor, slope, atol=2e-7)
    # The hessians bound the curvature along any direction.
    for direction in np.random.default_rng(2).normal(size=(5, 60)):
        step = 1e-3 * direction
        bend = (value(score + step) + value(score - step) - 2.0 * value(score)) / 1e-6 * counted
        assert bend <= (factor * hessian * direction**2).sum() + 1e-3
    expected, counts = gradient + event, factor > 0.0
    mean = np.average(expected, weights=factor)
    np.testing.assert_allclose(hessian[counts], np.maximum(expected, mean)[counts], atol=1e-12)
    assert (hessian[counts] > expected[counts] + 1e-3).any()


def test_without_ties_both_are_the_same():
    y = np.arange(60) % 3 > 0, np.random.default_rng(0).permutation(60) + 1.0
    score = np.random.default_rng(1).normal(size=(1, 60))
    both = [in_training(Cox(ties), y, NOTHING) for ties in TIES]
    first, second = (loss.shared(rows, score, CPU) for loss, rows in both)
    np.testing.assert_array_equal(first, second)


def test_weights_repeat_rows():
    """Breslow's sums do not depend on whether a row is there twice or has weight 2."""
    y, weight = target(40, 3), np.tile([1, 2], 20)
    repeated = tuple(np.repeat(part, weight) for part in y)
    score = np.random.default_rng(1).normal(size=(1, 40))
    loss, rows = in_training(Cox("breslow"), y, weight * 1.0)
    other, more = in_training(Cox("breslow"), repeated, NOTHING)
    again = np.repeat(score, weight, axis=1)
    expected = other.shared(more, again, CPU)
    np.testing.assert_allclose(np.repeat(loss.shared(rows, score, CPU), weight, axis=1), expected)
    value = loss.mean(rows, score, weight * 1.0, CPU)
    assert value == pytest.approx(other.mean(more, again, NOTHING, CPU))


def test_scores_far_apart():
    y = target(60, 0)
    score = np.linspace(-1e6, 1e6, 60)[None]
    for ties in TIES:
        loss, rows = in_training(Cox(ties), y, NOTHING)
        assert np.isfinite(loss.shared(rows, score, CPU)).all()
        assert np.isfinite(loss.mean(rows, score, NOTHING, CPU))


def intervals(n: int, seed: int) -> np.ndarray:
    """Observed, right-, left- and interval-censored times."""
    rng = np.random.default_rng(seed)
    time, kind = np.exp(rng.normal(size=n)), rng.integers(0, 4, n)
    lower = np.where(kind == 1, 0.0, time)
    upper = np.where(kind == 2, np.inf, np.where(kind == 3, 2.0 * time, time))
    return np.stack([lower, upper], axis=1)


@weighted
@pytest.mark.parametrize("loss", FAILURES, ids=repr)
def test_the_best_constant_of_failure_times(loss, weight):
    loss, y = in_training(loss, intervals(60, 0), weight)
    base = loss.base_score(y, weight, CPU)
    means = [
        loss.mean(y, np.full((1, 60), base[0] + step), weight, CPU) for step in (-1e-3, 0.0, 1e-3)
    ]
    assert means[1] < means[0] and means[1] < means[2]


@pytest.mark.parametrize("loss", [*map(Cox, TIES), *FAILURES], ids=repr)
@pytest.mark.parametrize("rate", [0.3, 1.0])
def test_the_training_loss_never_rises(loss, rate):
    """Without regularisation, and with leaves of few rows."""
    X = np.random.default_rng(5).normal(size=(300, 3))
    y = intervals(300, 1) if isinstance(loss, AFT) else target(300, 1, n_times=40)
    model = GradientBoostingRegressor(
        loss=loss, learning_rate=rate, n_estimators=15, min_samples_leaf=2, l2_regularization=0.0,
        min_sum_hessian=0.0, max_leaf_nodes=None, max_depth=6, device="cpu",
    )  # fmt: skip
    model.fit(X, y)
    loss, rows = in_training(loss, y, NOTHING)
    forest = model.forest_
    raw = np.repeat(forest.base[:, None], 300, axis=1)
    means = [loss.mean(rows, raw, NOTHING, CPU)]
    for k in range(forest.n_trees):
        forest.slice(k, k + 1).add_to(raw, X)
        means.append(loss.mean(rows, raw, NOTHING, CPU))
    assert (np.diff(means) <= 1e-6).all() and means[-1] < means[0] - 0.05


@pytest.mark.parametrize("make, message", [
    (lambda: Cox("exact"), "ties must be 'efron' or 'breslow', got 'exact'"),
    (lambda: AFT("weibull"), "distribution must be 'normal', 'logistic' or 'extreme'"),
    (lambda: AFT(scale=0.0), r"scale must be a number in \[1e-6, 1e6\], got 0.0"),
    (lambda: AFT(scale="1"), "scale must be a number"),
    (lambda: Cox().for_classes(2), "is a loss of survival: use GradientBoostingRegressor"),
    (lambda: AFT().for_targets(1), "is a loss of survival: use GradientBoostingRegressor"),
])  # fmt: skip
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()
