"""Arrays of libraries that are known by the Array API standard alone."""

from __future__ import annotations

import array_api_strict
import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import get_tags

import gpuens
from gpuens.devices.placement import is_of_the_standard, on_host, to_numpy
from tests.conformance.estimators import ESTIMATORS

X, Y = load_diabetes(return_X_y=True)
XC, C = load_wine(return_X_y=True)
DEVICES = [array_api_strict.Device(name) for name in ("CPU_DEVICE", "device1")]
devices = pytest.mark.parametrize("device", DEVICES, ids=str)
CLASSIFIERS = [
    gpuens.AdaBoostClassifier(n_estimators=3),
    gpuens.BaggingClassifier(n_estimators=3),
    gpuens.DecisionTreeClassifier(),
    gpuens.GradientBoostingClassifier(n_estimators=3),
    gpuens.RandomForestClassifier(n_estimators=3),
]
REGRESSORS = [
    gpuens.BaggingRegressor(n_estimators=3),
    gpuens.ExtraTreesRegressor(n_estimators=3),
    gpuens.GradientBoostingRegressor(n_estimators=3),
    gpuens.StagewiseRegressor(n_estimators=3),
]


def name_of(estimator):
    return type(estimator).__name__


def strict(array, device):
    return array_api_strict.asarray(array, device=device)


def check_same(result, expected, device):
    assert result.__array_namespace__().__name__ == "array_api_strict"
    assert result.device == device and result.shape == expected.shape
    np.testing.assert_array_equal(np.from_dlpack(result), expected)


@devices
@pytest.mark.parametrize("estimator", REGRESSORS, ids=name_of)
def test_regressors(estimator, device):
    weight = np.random.default_rng(0).uniform(0.5, 2, len(Y))
    expected = estimator.fit(X, Y, weight).predict(X)
    estimator.fit(strict(X, device), strict(Y, device), strict(weight, device))
    check_same(estimator.predict(strict(X, device)), expected, device)
    np.testing.assert_array_equal(estimator.predict(X), expected)  # of another library than fit
    assert estimator.score(strict(X, device), strict(Y, device)) == r2_score(Y, expected)


@devices
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
def test_classifiers(estimator, device):
    with np.errstate(divide="ignore"):
        estimator.fit(XC, C)
        methods = ("predict", "predict_proba", "predict_log_proba", "decision_function")
        methods = [method for method in methods if hasattr(estimator, method)]
        expected = {method: getattr(estimator, method)(XC) for method in methods}
        estimator.fit(strict(XC, device), strict(C, device))
        for method, values in expected.items():
            check_same(getattr(estimator, method)(strict(XC, device)), values, device)
    np.testing.assert_array_equal(estimator.classes_, [0, 1, 2])
    arrays = strict(XC, device), strict(C, device)
    assert estimator.score(*arrays) == accuracy_score(C, expected["predict"])


@devices
def test_labels_that_are_text_stay_numpy(device):
    model = gpuens.DecisionTreeClassifier().fit(strict(XC, device), C.astype(str))
    prediction = model.predict(strict(XC, device))
    assert type(prediction) is np.ndarray and prediction.dtype.kind == "U"


@devices
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "bool"])
def test_to_numpy(device, dtype):
    values = np.array([[0, 1], [1, 0]]).astype(dtype)
    for found in (to_numpy(strict(values, device)), on_host(strict(values, device))):
        assert type(found) is np.ndarray and found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)


def test_what_is_known_by_name_is_not_of_the_standard():
    assert is_of_the_standard(strict([1.0], DEVICES[0]))
    for known in (np.ones(2), np.float64(1), [1.0], 1.0, None, "a"):
        assert not is_of_the_standard(known)


@devices
def test_bad_arrays_are_told_as_ever(device):
    with pytest.raises(ValueError, match="y has 9 values, X has 442 rows"):
        gpuens.GradientBoostingRegressor().fit(strict(X, device), strict(Y[:9], device))
    with pytest.raises(ValueError, match="Input y contains NaN"):
        gpuens.GradientBoostingRegressor().fit(strict(X, device), strict(Y * np.nan, device))
    with pytest.raises(ValueError, match="Complex data not supported"):
        gpuens.GradientBoostingRegressor().fit(strict(X.astype(complex), device), Y)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        gpuens.DecisionTreeRegressor().fit(strict(Y, device), Y)


def test_what_claims_support_of_the_array_api():
    """All but those whose attributes are NumPy arrays, and what scikit-learn's learners decide."""
    without = ("AdaBoost", "Stagewise", "Tuned", "Voting")
    for estimator in ESTIMATORS:
        expected = not name_of(estimator).startswith(without)
        assert get_tags(estimator).array_api_support is expected, name_of(estimator)
    conformal = gpuens.ConformalRegressor(HistGradientBoostingRegressor())
    assert not get_tags(conformal).array_api_support
    assert get_tags(gpuens.BaggingRegressor(HistGradientBoostingRegressor())).array_api_support


@devices
def test_voting(device):
    """Its weights are NumPy's, its predictions are not."""
    model = gpuens.VotingRegressor([("deep", gpuens.DecisionTreeRegressor())], weights="greedy")
    expected = model.fit(X, Y).predict(X)
    model.fit(strict(X, device), strict(Y, device))
    check_same(model.predict(strict(X, device)), expected, device)
    assert isinstance(model.weights_, np.ndarray)
