"""Data frames of cuDF, by a stand-in: they are read on the GPU, through the array interface."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge

import gpuens
from tests.support import cudf_stand_in, strict_cupy

N = 120
RNG = np.random.default_rng(0)
HOST = pd.DataFrame({
    "wide": RNG.normal(size=N),
    "narrow": RNG.normal(size=N).astype(np.float32),
    "whole": RNG.integers(-50, 50, N),
    "small": RNG.integers(0, 9, N).astype(np.uint8),
    "flag": RNG.random(N) < 0.4,
})  # fmt: skip
Y = (HOST["wide"] + HOST["whole"] / 30 > 0.3).astype(np.int64).to_numpy()
WEIGHT = RNG.integers(1, 4, N).astype(float)


@pytest.fixture
def cudf(cupy, monkeypatch):
    return cudf_stand_in.install(monkeypatch)


def there(cudf, frame):
    """The same frame on the GPU; pandas' missing values become cuDF's."""
    return cudf.DataFrame({
        name: cudf.Series(column.fillna(column.dropna().iloc[0] if column.notna().any() else 0.0)
                          .to_numpy(getattr(column.dtype, "numpy_dtype", column.dtype)),
                          column.isna().to_numpy())
        for name, column in frame.items()
    })  # fmt: skip


def fitted(cls, X, y, weight, **settings):
    return getattr(gpuens, cls)(n_estimators=3, **settings).fit(X, y, weight)


@pytest.mark.parametrize("cls", ["GradientBoostingClassifier", "RandomForestClassifier"])
def test_models_are_those_of_pandas(cupy, cudf, cls):
    X, y, weight = there(cudf, HOST), cudf.Series(Y), cudf.Series(WEIGHT)
    expected = fitted(cls, HOST, Y, WEIGHT, device="cpu")
    strict_cupy.log().clear()
    model = fitted(cls, X, y, weight)
    assert model.feature_names_in_.tolist() == list(HOST.columns)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
    proba = model.predict_proba(X)
    assert type(proba) is strict_cupy.ndarray
    np.testing.assert_array_equal(proba.get(), expected.predict_proba(HOST))
    assert model.score(X, y) == expected.score(HOST, Y)


def test_they_follow_the_current_gpu(cupy, cudf):
    with cupy.cuda.Device(1):
        X = there(cudf, HOST)
        model = gpuens.GradientBoostingRegressor(n_estimators=2).fit(X, cudf.Series(WEIGHT))
        assert model.predict(X).device.id == 1


@pytest.mark.parametrize("columns", [["narrow", "small", "flag", "whole"], list(HOST)], ids=len)
def test_missing_values(cupy, cudf, columns):
    frame = HOST[columns].astype({"whole": "Int64", "small": "UInt8", "flag": "boolean"})
    for position, name in enumerate(columns):
        frame.loc[frame.index % (7 + position) == 0, name] = pd.NA
    frame["nothing"] = np.nan
    expected = fitted("RandomForestClassifier", frame, Y, None, device="cpu")
    model = fitted("RandomForestClassifier", there(cudf, frame), Y, None)
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()


@pytest.mark.parametrize("column", [
    pd.Categorical(["a", "b"] * (N // 2)), np.array(["a", "b"] * (N // 2), object),
    pd.date_range("2026-01-01", periods=N),
], ids=["categories", "text", "dates"])  # fmt: skip
def test_columns_that_are_not_numbers(cupy, cudf, column):
    frame = cudf.DataFrame({"number": Y, "other": column})
    with pytest.raises(ValueError, match="its column 'other' has dtype .* categorical_features"):
        gpuens.RandomForestClassifier(categorical_features=None).fit(frame, Y)


@pytest.mark.parametrize("named", ["from_dtype", ["color"]], ids=str)
def test_categories_are_read_on_the_host(cupy, cudf, named):
    frame = HOST.assign(color=pd.Categorical(np.where(HOST["whole"] > 0, "red", "blue")))
    settings = {"categorical_features": named}
    expected = fitted("GradientBoostingClassifier", frame, Y, None, device="cpu", **settings)
    X = cudf.DataFrame({name: cudf.Series(column) for name, column in frame.items()})
    model = fitted("GradientBoostingClassifier", X, cudf.Series(Y), None, **settings)
    assert model.is_categorical_.tolist() == expected.is_categorical_.tolist()
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
    np.testing.assert_array_equal(model.predict(X).get(), expected.predict(frame))


@pytest.mark.parametrize("cls", ["VotingRegressor", "StackingRegressor"])
def test_members_of_other_packages_get_pandas(cupy, cudf, cls):
    members = [("tree", gpuens.DecisionTreeRegressor(max_bins=32)), ("ridge", Ridge())]
    expected = getattr(gpuens, cls)(members, device="cpu").fit(HOST, WEIGHT)
    model = getattr(gpuens, cls)(members).fit(there(cudf, HOST), cudf.Series(WEIGHT))
    found = model.predict(there(cudf, HOST))
    assert type(found) is strict_cupy.ndarray
    np.testing.assert_array_equal(found.get(), expected.predict(HOST))


def test_device_cpu(cupy, cudf):
    expected = fitted("RandomForestClassifier", HOST, Y, WEIGHT, device="cpu")
    given = there(cudf, HOST), cudf.Series(Y), cudf.Series(WEIGHT)
    model = fitted("RandomForestClassifier", *given, device="cpu")
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()


def test_bad_input(cupy, cudf):
    X = there(cudf, HOST)
    with pytest.raises(ValueError, match=r"Input y contains NaN or None: 2 values"):
        gpuens.RandomForestClassifier().fit(X, cudf.Series(Y, np.arange(N) < 2))
    with pytest.raises(ValueError, match=r"Input sample_weight contains NaN or None: 5 values"):
        gpuens.RandomForestClassifier().fit(X, Y, cudf.Series(WEIGHT, np.arange(N) < 5))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        gpuens.RandomForestClassifier().fit(there(cudf, HOST[:0]), Y[:0])
    model = gpuens.RandomForestClassifier(2).fit(X, Y)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(there(cudf, HOST[HOST.columns[::-1]]))
