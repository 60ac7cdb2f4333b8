"""Where features are cut: by weight, and by the gaps beside extreme values."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import r2_score

from gpuens import ExtraTreesRegressor, GradientBoostingRegressor, RandomForestRegressor
from gpuens.inputs.binning import cut_points, whole_weights
from gpuens.kernels.binning.cut_points import BINS_OF_A_GAP

RNG = np.random.default_rng(0)
BODY = RNG.random(3000)


def bins_of(values, weight=None, max_bins=255):
    return np.searchsorted(cut_points(np.array(values), weight, max_bins), values)


@pytest.mark.parametrize("draw", [RNG.random, RNG.standard_normal, RNG.standard_exponential])
def test_columns_without_wide_gaps_are_cut_by_weight_alone(draw):
    values = draw(4000)
    ranks = np.sort(values)
    ends = np.flatnonzero(np.diff(np.floor((np.arange(4000) + 0.5) * 255 / 4000)))
    np.testing.assert_array_equal(
        cut_points(values.copy(), None, 255), 0.5 * ranks[ends] + 0.5 * ranks[ends + 1]
    )


EXTREMES = {
    "one": [50.0],
    "one on each side": [-50.0, 50.0],
    "farther and farther": [-1e3, 3.0, 1e3, 1e6],
    "infinite": [-np.inf, 1e300, np.inf],
    "more than a bin holds": list(50 + RNG.random(20)),
    "beside a sentinel": [-999.0] * 800 + [50.0],
    "beside a value of most rows": [0.0] * 9000 + [50.0],
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", EXTREMES)
def test_extremes_share_no_bin_with_the_others(case, dtype):
    with np.errstate(over="ignore"):
        values = np.concatenate([BODY, np.array(EXTREMES[case])]).astype(dtype)
    weight = 0.1 + np.random.default_rng(1).random(values.size)
    is_extreme = np.arange(values.size) >= BODY.size
    for weights in (None, weight):
        for max_bins in (64, 255):
            bins = bins_of(values, weights, max_bins)
            assert not set(bins[is_extreme]) & set(bins[~is_extreme])
            assert bins.max() < max_bins
    assert all(bins_of(values, None, few).max() < few for few in (2, 3, 15, 16, 17))


def test_few_of_many_gaps_are_cut():
    """A column whose values treble has as many bins for the gaps as may be."""
    values = np.concatenate([BODY, 3.0 ** np.arange(1, 400)])
    bins = bins_of(values)
    assert bins.max() < 255
    widest = bins[-(255 // BINS_OF_A_GAP) :]
    assert len(set(widest)) == len(widest)


def test_weights_are_those_of_repeated_rows():
    weight = np.random.default_rng(2).integers(0, 4, BODY.size)
    repeated = np.repeat(BODY, weight)
    for unit in (1.0, 0.25, 2.0**-1060, 2.0**900):
        np.testing.assert_array_equal(
            cut_points(BODY.copy(), weight * unit, 255), cut_points(repeated.copy(), None, 255)
        )


def test_sums_of_weights_do_not_depend_on_their_order():
    weight = np.random.default_rng(3).lognormal(0, 2, 100_000)
    whole = whole_weights(weight)
    assert (whole == np.rint(whole)).all() and whole.sum() < 2**52
    np.testing.assert_allclose(whole / whole.sum(), weight / weight.sum(), rtol=0, atol=1e-10)
    assert whole.cumsum()[-1] == whole[::-1].cumsum()[-1] == whole.sum()
    order = np.random.default_rng(4).permutation(BODY.size)
    there, here = BODY[order], weight[: BODY.size][order]
    np.testing.assert_array_equal(
        cut_points(there, here, 255), cut_points(BODY.copy(), weight[: BODY.size], 255)
    )


@pytest.mark.parametrize("kind, settings", [
    (RandomForestRegressor, {}), (ExtraTreesRegressor, {}),
    (GradientBoostingRegressor, {"min_samples_leaf": 1, "learning_rate": 0.4}),
])  # fmt: skip
@pytest.mark.parametrize("far", [50.0, 1.7])
def test_one_outlier_does_not_ruin_a_model(kind, settings, far):
    """Rows beside the outlier are predicted as without it."""
    rng = np.random.default_rng(5)
    X = rng.random((2000, 4))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 5 * X[:, 2]
    train, test = slice(0, 1000), slice(1000, None)
    X[5, 3], y[5] = far, 1e4
    model = kind(n_estimators=20, random_state=0, device="cpu", **settings)
    clean = np.delete(np.arange(1000), 5)
    without = r2_score(y[test], model.fit(X[clean], y[clean]).predict(X[test]))
    assert r2_score(y[test], model.fit(X[train], y[train]).predict(X[test])) > 0.98 * without > 0.8
