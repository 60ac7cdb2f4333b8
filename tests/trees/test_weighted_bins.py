"""Bins follow weights: rows of weight zero are as if they were not there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array
from sklearn.base import is_classifier

import gpuens
from gpuens.devices import placement as devices
from gpuens.devices.sparse_tables import SparseTable
from gpuens.inputs import binning
from gpuens.tables import building
from gpuens.trees import binned as trees_binned
from gpuens.trees import table as trees_table
from tests.support import strict_cupy

TREE: dict[str, Any] = {"max_bins": 30}
ALL_ROWS: dict[str, Any] = {"n_estimators": 3, "max_bins": 30, "bootstrap": False}
CASES: list[tuple[str, dict[str, Any]]] = [
    *(
        (f"{cls}{kind}", settings)
        for kind in ("Classifier", "Regressor")
        for cls, settings in (
            ("DecisionTree", TREE),
            ("DecisionTree", {"max_bins": None}),
            ("ExtraTree", TREE),
            ("RandomForest", ALL_ROWS),
            ("RandomForest", ALL_ROWS | {"categorical_features": [2]}),
            ("ExtraTrees", ALL_ROWS),
            ("ObliqueRandomForest", ALL_ROWS | {"feature_combinations": 2}),
            ("AdaBoost", {"n_estimators": 3, "max_bins": 30}),
        )
    ),
    ("RandomForestRegressor", ALL_ROWS | {"criterion": "poisson"}),
    ("RandomForestRegressor", ALL_ROWS | {"criterion": "absolute_error", "max_depth": 4}),
    ("RandomForestRegressor", ALL_ROWS | {"monotonic_cst": [1, 0, 0]}),
    ("RandomForestClassifier", ALL_ROWS | {"class_weight": {0: 1.0, 1: 3.0}}),
    ("QuantileForestRegressor", ALL_ROWS),
    ("RandomSurvivalForest", ALL_ROWS),
    ("ExtraSurvivalTrees", ALL_ROWS),
]
N_USED, N_OTHERS = 400, 900


def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A table whose first rows, far more, hold other values, a target, and which rows count."""
    rng = np.random.default_rng(0)
    n = N_USED + N_OTHERS
    X = rng.normal(size=(n, 3))
    X[:, 2] = rng.integers(0, 8, n)
    y = np.exp(np.sin(3 * X[:, 0]) + X[:, 1] / 2 + (X[:, 2] % 3) / 2)
    X[rng.random(n) < 0.05, 1] = np.nan
    used = np.zeros(n, bool)
    used[rng.permutation(n)[:N_USED]] = True
    X[~used, :2] = 5 + X[~used, :2] / 7
    X[~used, 2] = rng.integers(0, 7, N_OTHERS)
    y[~used] *= 40
    return X, y, used


def made(name: str, settings: dict[str, Any]) -> Any:
    return getattr(gpuens, name)(**settings, random_state=3, device="cpu")


def target_of(model: Any, y: np.ndarray) -> Any:
    if is_classifier(model):
        return np.digitize(y, [1.0, 2.0])
    if "Surviv" in type(model).__name__:
        return np.arange(y.size) % 3 > 0, y
    return y


def taken(target: Any, at: np.ndarray) -> Any:
    return tuple(each[at] for each in target) if isinstance(target, tuple) else target[at]


def few_bins(monkeypatch: pytest.MonkeyPatch, sample: int) -> None:
    """Choose cut points from so few rows."""
    for module in (binning, building, trees_binned, trees_table):
        monkeypatch.setattr(module, "SAMPLE_SIZE", sample)


@pytest.mark.parametrize("sample", [200_000, 250], ids=["", "sampled"])
@pytest.mark.parametrize("even", [True, False], ids=["", "weighted"])
@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_rows_of_weight_zero(name, settings, even, sample, monkeypatch):
    """The model is that of the other rows."""
    few_bins(monkeypatch, sample)
    X, y, used = rows()
    model, expected = made(name, settings), made(name, settings)
    weight = used.astype(float) if even else used * (1.0 + np.arange(used.size) % 4) / 3
    target = target_of(model, y)
    model.fit(X, target, weight)
    expected.fit(X[used], taken(target, used), None if even else weight[used])
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()
    assert np.array_equal(model.predict(X), expected.predict(X))


@pytest.mark.parametrize("cls", ["DecisionTree", "ExtraTrees"])
@pytest.mark.parametrize("kind", ["Classifier", "Regressor"])
def test_several_outputs(cls, kind):
    X, y, used = rows()
    targets = np.stack([y, X[:, 0]], axis=1)
    if kind == "Classifier":
        targets = (targets > 1).astype(int)
    model, expected = (made(cls + kind, TREE) for _ in range(2))
    model.fit(X, targets, used.astype(float))
    expected.fit(X[used], targets[used])
    assert model.forest_.fingerprint() == expected.forest_.fingerprint()


@pytest.mark.parametrize("sample", [200_000, 250], ids=["", "sampled"])
@pytest.mark.parametrize("even", [True, False], ids=["", "weighted"])
@pytest.mark.parametrize(
    "name", ["DecisionTreeRegressor", "ExtraTreesClassifier", "GradientBoostingRegressor"]
)
def test_sparse_tables(name, even, sample, monkeypatch):
    few_bins(monkeypatch, sample)
    X, y, used = rows()
    X[np.abs(X) < 0.4] = 0.0
    settings = ALL_ROWS if name == "ExtraTreesClassifier" else TREE
    if name == "GradientBoostingRegressor":
        settings = TREE | {"n_estimators": 1}
    weight = used.astype(float) if even else used * (1.0 + np.arange(used.size) % 4)
    models = [made(name, settings) for _ in range(3)]
    target = target_of(models[0], y)
    models[0].fit(csr_array(X), target, weight)
    models[1].fit(X, target, weight)
    prints = [model.forest_.fingerprint() for model in models[:2]]
    assert prints[0] == prints[1]
    if name != "GradientBoostingRegressor":  # it rounds gradients by the numbers of rows
        models[2].fit(csr_array(X[used]), target[used], weight[used])
        assert models[2].forest_.fingerprint() == prints[0]


def same_bins(one: Any, other: Any) -> bool:
    pairs = zip(one.thresholds, other.thresholds, strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("sample", [200_000, 250], ids=["", "sampled"])
@pytest.mark.parametrize("even", [True, False], ids=["", "weighted"])
@pytest.mark.parametrize("reads", [lambda X: X, csr_array, "batches", "function"])
def test_bins_of_boosting(reads, even, sample, monkeypatch):
    few_bins(monkeypatch, sample)
    X, y, used = rows()
    weight = used.astype(float) if even else used * (1.0 + np.arange(used.size) % 4)
    settings = {"n_estimators": 2, "max_bins": 30, "min_samples_leaf": 5}
    expected = made("GradientBoostingRegressor", settings).fit(X[used], y[used], weight[used])
    model = made("GradientBoostingRegressor", settings)
    if callable(reads):
        model.fit(reads(np.nan_to_num(X, nan=9.0)), y, weight)
        X = np.nan_to_num(X, nan=9.0)
        expected.fit(X[used], y[used], weight[used])
    else:
        source: Any = X
        if reads == "function":  # the number of rows is not known before
            parts = [slice(i, i + 99) for i in range(0, y.size, 99)]
            source = lambda: ((X[at], y[at], weight[at]) for at in parts)  # noqa: E731
        further = {} if reads == "function" else {"y": y, "sample_weight": weight}
        model.fit(gpuens.BinnedTable.from_batches(source, max_bins=30, random_state=3, **further))
    assert same_bins(model._binner, expected._binner)


@pytest.mark.parametrize("sample", [200_000, 250], ids=["", "sampled"])
@pytest.mark.parametrize("even", [True, False], ids=["", "weighted"])
@pytest.mark.parametrize("on_disk", [False, True])
def test_binned_tables(on_disk, even, sample, monkeypatch, tmp_path):
    few_bins(monkeypatch, sample)
    X, y, used = rows()
    weight = used.astype(float) if even else used * (1.0 + np.arange(used.size) % 4)
    model, expected = (made("RandomForestRegressor", ALL_ROWS) for _ in range(2))
    table = gpuens.BinnedTable.from_batches(
        X, y=y, sample_weight=weight, max_bins=30, random_state=3,
        path=tmp_path / "table" if on_disk else None,
    )  # fmt: skip
    expected.fit(X[used], y[used], weight[used])
    assert model.fit(table).forest_.fingerprint() == expected.forest_.fingerprint()


@pytest.mark.parametrize("max_bins", [None, 30])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("even", [True, False], ids=["", "weighted"])
@pytest.mark.parametrize("copied", [trees_table.COPIED_BYTES, 1])
def test_codes_on_a_gpu(max_bins, sparse, even, copied, monkeypatch):
    """Those of the host, also of a table that is there already."""
    strict_cupy.install(monkeypatch)
    monkeypatch.setattr(trees_table, "COPIED_BYTES", copied)
    X, _, used = rows()
    X = np.nan_to_num(X)
    weight = used.astype(float) if even else used * (1.0 + np.arange(used.size) % 4)
    device = devices.Device("cuda")
    settings: dict[str, Any] = {
        "n_categories": np.zeros(3, np.int32), "monotone": np.zeros(3, np.int8),
        "max_bins": max_bins, "seed": 0,
    }  # fmt: skip
    tables = [SparseTable(csc_array(X))] if sparse else [X, device.asarray(X)]
    here = trees_table.cart_table(X[used], weight=weight[used], device=devices.CPU, **settings)
    for table in tables:
        there = trees_table.cart_table(table, weight=weight, device=device, **settings)
        codes = devices.to_numpy(there.codes)
        assert np.array_equal(codes[:, used], here.codes)
        assert (codes[:, ~used] == here.n_bins[:, None]).all()
        for name in ("n_bins", "begin", "lower", "upper"):
            assert np.array_equal(getattr(there, name), getattr(here, name))


@pytest.mark.parametrize("cls", [gpuens.RandomForestRegressor, gpuens.ExtraTreesRegressor])
def test_categories_of_rows_of_weight_zero_alone(cls):
    """They are known, and change nothing for the rows of others."""
    X, y, used = rows()
    X[~used, 2] += np.arange(N_OTHERS) % 290
    settings = {"categorical_features": [2], "n_estimators": 3, "bootstrap": False, "device": "cpu"}
    model = cls(**settings).fit(X, y, used.astype(float))
    expected = cls(**settings).fit(X[used], y[used])
    assert np.array_equal(model.predict(X[used]), expected.predict(X[used]))


def test_such_categories_take_no_bins_of_boosting():
    X, y, used = rows()
    X[~used, 2] += np.arange(N_OTHERS) % 290
    settings = {"categorical_features": [2], "n_estimators": 1, "cat_hash_groups": 1}
    model = gpuens.GradientBoostingRegressor(**settings).fit(X, y, used.astype(float))
    assert np.array_equal(model._binner.bins[2][:8], np.arange(8))


def test_adaboost_bins_by_the_weights_of_the_user():
    """Once, whatever the rounds make of them."""
    X, y, _ = rows()
    X, weight = np.nan_to_num(X), np.where(np.arange(y.size) % 9 > 0, 1e-3, 1.0)
    model = made("AdaBoostRegressor", {"n_estimators": 8, "max_bins": 6}).fit(X, y, weight)
    table = trees_table.cart_table(
        X, weight=weight, n_categories=np.zeros(3, np.int32), monotone=np.zeros(3, np.int8),
        max_bins=6, seed=0, device=devices.CPU,
    )  # fmt: skip
    for f in range(3):
        bins = slice(table.begin[f], table.begin[f + 1])
        between = np.add.outer(table.upper[bins], table.lower[bins]) / 2
        cuts = model.forest_.threshold[model.forest_.feature == f]
        assert cuts.size and np.isclose(cuts[:, None, None], between).any(axis=(1, 2)).all()


def test_trials_of_oblique_forests_have_rows_of_positive_weight(monkeypatch):
    monkeypatch.setattr("gpuens.forests.oblique.TRIAL_ROWS", 200)
    X, y, used = rows()
    weight = np.where(np.arange(used.size) < 30, 1.0, 0.0)
    model = made("ObliqueRandomForestRegressor", {"n_estimators": 3}).fit(X, y, weight)
    assert model.feature_combinations_ >= 1 and np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize(("name", "settings"), CASES, ids=str)
def test_equal_weights_are_none(name, settings):
    X, y, _ = rows()
    model, expected = made(name, settings), made(name, settings)
    target = target_of(model, y)
    found = [m.fit(X, target, w) for m, w in ((model, np.full(y.size, 0.25)), (expected, None))]
    assert np.array_equal(*(m.forest_.threshold for m in found))


@pytest.mark.parametrize("light", [0.0, 1e-6])
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DecisionTreeRegressor", {"max_bins": 255}),
        ("ExtraTreeRegressor", {"max_bins": 255}),
        ("RandomForestRegressor", {"n_estimators": 10}),
        ("ExtraTreesRegressor", {"n_estimators": 10}),
        ("ObliqueRandomForestRegressor", {"n_estimators": 10, "feature_combinations": 1}),
        ("QuantileForestRegressor", {"n_estimators": 10, "default_quantiles": "mean"}),
        ("BaggingRegressor", {"estimator": gpuens.DecisionTreeRegressor(max_bins=255)}),
        ("BaggingRegressor", {"estimator": gpuens.RandomForestRegressor(5), "n_estimators": 3}),
        ("AdaBoostRegressor", {"estimator": gpuens.DecisionTreeRegressor(max_bins=255)}),
        ("GradientBoostingRegressor", {"min_samples_leaf": 1, "n_estimators": 30}),
    ],
    ids=str,
)
def test_many_light_rows_do_not_take_the_bins(name, settings, light):
    X = np.r_[np.linspace(0, 1, 20_000), np.linspace(10, 10.1, 300)][:, None]
    y = np.r_[np.zeros(20_000), np.repeat(np.arange(30) % 2, 10)]
    weight = np.r_[np.full(20_000, light), np.ones(300)]
    model = made(name, settings).fit(X, y, sample_weight=weight)
    assert model.score(X[20_000:], y[20_000:]) > 0.85
