"""``feature_importances_``: shares of the gains, by feature."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier as TheirClassifier
from sklearn.ensemble import GradientBoostingRegressor as TheirRegressor
from sklearn.exceptions import NotFittedError
from sklearn.feature_selection import SelectFromModel

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.inspection import feature_importances

SMALL = {"n_estimators": 30, "max_depth": 3, "min_samples_leaf": 5, "device": "cpu"}
STRENGTHS = np.array([5.0, 0.0, 2.0, 1.0, 0.0])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, STRENGTHS.size))
    return X, X @ STRENGTHS + 0.1 * rng.normal(size=800)


CASES = {
    "regression": (GradientBoostingRegressor(**SMALL), lambda y: y),
    "two targets": (GradientBoostingRegressor(**SMALL), lambda y: np.stack([y, -2 * y], axis=1)),
    "two classes": (GradientBoostingClassifier(**SMALL), lambda y: y > 0),
    "three classes": (GradientBoostingClassifier(**SMALL), lambda y: np.digitize(y, [-3, 3])),
}


@pytest.mark.parametrize("case", CASES)
def test_shares_of_the_gains(data, case):
    X, y = data
    model, target = CASES[case]
    model.fit(X, target(y))
    gains = np.zeros(X.shape[1])
    for feature, gain in zip(model.forest_.feature, model.forest_.gain, strict=True):
        if feature >= 0:
            gains[feature] += gain
    found = model.feature_importances_
    np.testing.assert_allclose(found, gains / gains.sum(), rtol=1e-12)
    assert found.shape == (model.n_features_in_,) and found.dtype == np.float64
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(100 * found / found.max(), feature_importances(model), rtol=1e-12)


@pytest.mark.parametrize(
    ("ours", "theirs", "target"),
    [
        (GradientBoostingRegressor, TheirRegressor, lambda y: y),
        (GradientBoostingClassifier, TheirClassifier, lambda y: np.digitize(y, [-3, 3])),
    ],
)
def test_the_ranking_is_that_of_scikit_learn(data, ours, theirs, target):
    X, y = data
    found = ours(**SMALL).fit(X, target(y)).feature_importances_
    expected = theirs(n_estimators=30, max_depth=3, random_state=0).fit(X, target(y))
    important = np.argsort(-STRENGTHS)[:3]
    np.testing.assert_array_equal(np.argsort(-found)[:3], important)
    np.testing.assert_array_equal(np.argsort(-expected.feature_importances_)[:3], important)
    np.testing.assert_allclose(found, expected.feature_importances_, atol=0.05)


def test_without_a_split_all_are_zero(data):
    X, _ = data
    model = GradientBoostingRegressor(**SMALL).fit(X, np.ones(len(X)))
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(X.shape[1]))


def test_before_fit():
    with pytest.raises(NotFittedError):
        GradientBoostingRegressor().feature_importances_  # noqa: B018


def test_features_are_selected_by_them(data):
    X, y = data
    kept = SelectFromModel(GradientBoostingRegressor(**SMALL), threshold=0.01).fit(X, y)
    np.testing.assert_array_equal(kept.get_support(), STRENGTHS > 0)
