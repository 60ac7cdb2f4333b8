"""Partial dependence by brute force, beside the plain mean of predictions, and on every device."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.datasets import make_friedman1
from sklearn.inspection import partial_dependence as sklearn_partial_dependence
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuens import GradientBoostingRegressor, RandomForestClassifier, RandomForestRegressor
from gpuens.inspection import columns as inspection_columns
from gpuens.inspection import partial_dependence
from tests.support import strict_cupy

X, Y = make_friedman1(300, n_features=6, noise=0.5, random_state=0)
C2 = (Y > np.median(Y)).astype(int)
EXACT = {"rtol": 1e-10, "atol": 1e-12}


class TestBruteForce:
    @pytest.mark.parametrize("kind", ["average", "individual", "both"])
    @pytest.mark.parametrize("features", [[1], [3, 0], 2], ids=str)
    def test_as_scikit_learn(self, kind, features):
        weight = np.random.default_rng(0).random(len(X))
        for model, y in (
            (LinearRegression(), Y), (LinearRegression(), np.stack([Y, Y**2], axis=1)),
            (LogisticRegression(), C2), (LogisticRegression(), np.digitize(Y, [10, 18])),
            (RandomForestClassifier(n_estimators=3, max_depth=4), C2),
            (GradientBoostingRegressor(n_estimators=3), Y),
        ):  # fmt: skip
            model.fit(X, y)
            settings = {"grid_resolution": 6, "kind": kind, "sample_weight": weight,
                        "method": "brute"}  # fmt: skip
            found = partial_dependence(model, X, features, **settings)
            expected = sklearn_partial_dependence(model, X, features, **settings)
            assert set(found) == set(expected)
            for name in set(found) - {"grid_values"}:
                np.testing.assert_allclose(found[name], expected[name], **EXACT)
            for ours, theirs in zip(found.grid_values, expected.grid_values, strict=True):
                np.testing.assert_allclose(ours, theirs, rtol=1e-14)

    def test_by_hand(self):
        model = GradientBoostingRegressor(n_estimators=5).fit(X, Y)
        found = partial_dependence(model, X, [3, 1], kind="both", grid_resolution=4)
        for (i, a), (j, b) in product(*map(enumerate, found.grid_values)):
            table = X.copy()
            table[:, 3], table[:, 1] = a, b
            np.testing.assert_array_equal(found.individual[0, :, i, j], model.predict(table))
            assert found.average[0, i, j] == pytest.approx(model.predict(table).mean(), rel=1e-12)

    def test_copies_predicted_together_change_nothing(self, monkeypatch):
        model = RandomForestRegressor(n_estimators=3).fit(X, Y)
        settings = {"grid_resolution": 7, "kind": "both"}
        together = partial_dependence(model, X, [3], **settings)
        monkeypatch.setattr(inspection_columns.ArrayColumns, "COPY_BYTES", 0)
        alone = partial_dependence(model, X, [3], **settings)
        np.testing.assert_array_equal(together.individual, alone.individual)
        np.testing.assert_array_equal(together.average, alone.average)

    def test_the_table_is_left_alone(self):
        table = X.copy()
        table.flags.writeable = False
        partial_dependence(LinearRegression().fit(X, Y), table, [0])
        np.testing.assert_array_equal(table, X)

    def test_centred(self):
        model = GradientBoostingRegressor(n_estimators=5).fit(X, Y)
        for features in ([3], [3, 0]):
            plain, centred = (
                partial_dependence(
                    model, X, features, kind="both", grid_resolution=5, centered=centered
                )
                for centered in (False, True)
            )
            first = (slice(None),) + (slice(0, 1),) * len(features)
            expected = plain.average - plain.average[first]
            np.testing.assert_array_equal(centred.average, expected)
            first = (slice(None), slice(None)) + (slice(0, 1),) * len(features)
            expected = plain.individual - plain.individual[first]
            np.testing.assert_array_equal(centred.individual, expected)

    def test_sparse_tables(self):
        model = LinearRegression().fit(X, Y)
        found = partial_dependence(model, scipy.sparse.csr_matrix(X), [2]).average
        np.testing.assert_allclose(found, partial_dependence(model, X, [2]).average)


class Quadratic(RegressorMixin, BaseEstimator):
    """A regressor of a package whose estimators take arrays on a GPU."""

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def predict(self, X):
        assert type(X) is strict_cupy.ndarray and X.device.id == 1
        return X[:, 0] ** 2 + X[:, 1]


Quadratic.__module__ = "cuml.made_up"


class TestGPU:
    def test_arrays_stay_where_they_are(self, monkeypatch):
        cupy = strict_cupy.install(monkeypatch)
        table = strict_cupy.on_gpu(cupy, X, 1)
        found = partial_dependence(Quadratic().fit(X, Y), table, [0, 1], kind="both",
                                   grid_resolution=5)  # fmt: skip
        for array in (*found.grid_values, found.average, found.individual):
            assert isinstance(array, cupy.ndarray) and array.device.id == 1
        host = [array.get() for array in found.grid_values]
        expected = host[0][:, None] ** 2 + host[1][None, :]
        np.testing.assert_allclose(found.average.get()[0], expected)
        np.testing.assert_allclose(found.individual.get()[0, 7], expected)

    def test_models_of_the_host_get_host_arrays(self, monkeypatch):
        cupy = strict_cupy.install(monkeypatch)
        model = LinearRegression().fit(X, Y)
        found = partial_dependence(model, strict_cupy.on_gpu(cupy, X, 1), [2])
        assert isinstance(found.average, cupy.ndarray) and found.average.device.id == 1
        np.testing.assert_array_equal(
            found.average.get(), partial_dependence(model, X, [2]).average
        )

    def test_our_trees_on_the_host(self, monkeypatch):
        model = RandomForestRegressor(n_estimators=3, device="cpu").fit(X, Y)
        expected = partial_dependence(model, X, [2])
        cupy = strict_cupy.install(monkeypatch)
        found = partial_dependence(model, strict_cupy.on_gpu(cupy, X, 1), [2])
        assert isinstance(found.average, cupy.ndarray)
        np.testing.assert_array_equal(found.average.get(), expected.average)


@pytest.mark.parametrize("threads", [1, 2])
def test_the_same_bits_with_any_number_of_threads(threads):
    model = RandomForestRegressor(n_estimators=5, n_jobs=threads).fit(X, Y)
    found = partial_dependence(model, X, [3, 0], grid_resolution=9).average
    expected = partial_dependence(
        RandomForestRegressor(n_estimators=5, n_jobs=1).fit(X, Y), X, [3, 0], grid_resolution=9
    ).average
    np.testing.assert_array_equal(found, expected)


def test_lists():
    model = make_pipeline(StandardScaler(), LinearRegression()).fit(X, Y)
    found = partial_dependence(model, X.tolist(), [2]).average
    np.testing.assert_array_equal(found, partial_dependence(model, X, [2]).average)
