"""What every estimator takes, and what it says about the rest: the same words everywhere."""

from __future__ import annotations

from functools import partial
from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils import get_tags

from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeRegressor,
    StackingClassifier,
    StagewiseClassifier,
    StagewiseRegressor,
    VotingRegressor,
)
from tests.conformance.estimators import PREDICTORS, name_of
from tests.support import strict_cupy
from tests.support.errors import changed, raises
from tests.support.lanes import few

NAN, INF = float("nan"), float("inf")
N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
Y = X[:, 0] + X[:, 1]
C = (Y > 0).astype(int)

OWN = [e for e in PREDICTORS if not name_of(e).endswith("SearchCV")]
TREE_AND_RIDGE = [("tree", DecisionTreeRegressor(max_depth=2)), ("ridge", Ridge())]
OF_OTHERS = [
    AdaBoostClassifier(LogisticRegression(), n_estimators=2),
    AdaBoostRegressor(Ridge(), n_estimators=2),
    BaggingClassifier(LogisticRegression(), n_estimators=2),
    BaggingRegressor(Ridge(), n_estimators=2),
    StagewiseClassifier(Ridge(), n_estimators=2),
    StagewiseRegressor([DecisionTreeRegressor(max_depth=2), Ridge()], n_estimators=2),
    StackingClassifier([("a", LogisticRegression()), ("b", LogisticRegression(C=0.1))], cv=2),
    VotingRegressor(TREE_AND_RIDGE),
]  # fmt: skip
"""Ensembles of learners of scikit-learn."""
own = pytest.mark.parametrize("estimator", OWN, ids=name_of)
IDS = [*map(name_of, OWN), *(f"{name_of(e)} of others" for e in OF_OTHERS)]
every = pytest.mark.parametrize("estimator", OWN + OF_OTHERS, ids=IDS)
own_first = pytest.mark.parametrize("estimator", OWN + few(OF_OTHERS, 0), ids=IDS)
"""``every``, but for ensembles of slow learners, one of which is enough where all do the same."""


def target(estimator: Any) -> np.ndarray:
    return C if is_classifier(estimator) else Y


TABLES: dict[str, tuple[Any, type[Exception], tuple[str, ...]]] = {
    "no rows": (np.empty((0, 3)), ValueError, ("0 sample(s)", "shape=(0, 3)", "minimum of 1")),
    "no columns": (np.empty((N, 0)), ValueError, ("0 feature(s)", "0)) while a minimum of 1")),
    "one dimension": (X[:, 0], ValueError, ("Expected 2D array, got 1D array", "eshape")),
    "a number": (3.0, (TypeError, ValueError), ("array",)),
    "complex": (X + 1j, ValueError, ("Complex data not supported",)),
    "lazy": (pl.LazyFrame({"a": X[:, 0]}), TypeError, ("X is a LazyFrame", "X.collect()")),
    "sparse, no rows": (scipy.sparse.csr_array((0, 3)), ValueError, ("0 sample(s)",)),
}
OF_NUMBERS = {
    "no columns, frame": (pd.DataFrame(index=range(N)), ValueError, ("0 feature(s)",)),
    "ragged": ([[1, 2], [3]], ValueError, ("inhomogeneous",)),
    "three dimensions": (X[None], ValueError, ("Found array with dim 3",)),
    "text": (X.astype(str), ValueError, ("X must hold numbers, got dtype <U", "OrdinalEncoder")),
    "objects": (
        changed(X.astype(object), 0, "x"),
        ValueError,
        ("X has dtype object", "not numbers", "could not convert string to float: 'x'"),
    ),
    "dates": (X.astype("M8[s]"), ValueError, ("X must hold numbers, got dtype datetime64",)),
    "sparse, complex": (
        scipy.sparse.csr_array(X + 1j),
        ValueError,
        ("X is sparse with dtype", "Complex data not supported"),
    ),
    "text column": (
        pl.DataFrame({"a": X[:, 0], "city": ["x"] * N}),
        ValueError,
        ("X must hold numbers, but its column 'city' has dtype String", "OrdinalEncoder"),
    ),
    "repeated names": (
        pd.DataFrame(X, columns=["a", "b", "a"]),
        ValueError,
        ("X has columns of the same name: ['a']", "rename or drop"),
    ),
}
METHODS = ("predict", "predict_proba", "staged_predict", "apply", "decision_path", "proximity",
           "decision_function")  # fmt: skip
VIEWS = ("feature_importances_", "estimators_", "estimators_samples_", "tree_")
OWN_TREES = [e for e in OWN if name_of(e).startswith(("Decision", "Extra", "Random", "Gradient"))]
of_trees = pytest.mark.parametrize("estimator", OWN_TREES, ids=name_of)


@every
def test_tables(estimator):
    for table, error, parts in TABLES.values():
        with raises(error, *parts):
            clone(estimator).fit(table, target(estimator))


@of_trees
def test_tables_that_members_would_have_to_read(estimator):
    for table, error, parts in OF_NUMBERS.values():
        with raises(error, *parts):
            clone(estimator).fit(table, target(estimator))


@pytest.mark.filterwarnings("ignore:X has feature names")
@every
def test_tables_to_predict(estimator):
    model = clone(estimator).fit(X, target(estimator))
    for method in filter(partial(hasattr, model), METHODS):
        for table, error, _ in TABLES.values():
            with pytest.raises(error):
                next(iter(getattr(model, method)(table)))
        for table in (X[:, :2], np.hstack([X, X]), X[:1, :1].tolist()):
            with raises(ValueError, "features, but", "is expecting 3"):
                next(iter(getattr(model, method)(table)))


def several(estimator: Any, y: np.ndarray) -> list[np.ndarray]:
    """A target alone, and beside a good one where there may be several outputs."""
    beside = get_tags(estimator).target_tags.multi_output and np.ndim(y) == 1
    return [y, np.stack([np.resize(target(estimator), len(y)), y], axis=1)] if beside else [y]


@every
def test_targets(estimator):
    y = target(estimator)
    with raises(ValueError, "requires y to be passed, but the target y is None"):
        clone(estimator).fit(X, None)
    with raises(ValueError, "omplex data not supported"):
        clone(estimator).fit(X, y + 1j)
    for wrong, *parts in [
        (changed(y, 5, NAN), "Input y contains NaN"),
        (changed(y, 5, INF), "Input y contains infinity"),
        (changed(y, 5, -INF), "Input y contains infinity"),
        *((np.resize(y, n), f"y has {n} values, X has {N} rows") for n in (0, N - 1, N + 1)),
    ]:
        for each in several(estimator, wrong):
            with raises(ValueError, *parts):
                clone(estimator).fit(X, each)


@every
def test_labels_that_are_none(estimator):
    if not is_classifier(estimator):
        with raises(ValueError, "y must hold numbers for a regression", "use a classifier"):
            clone(estimator).fit(X, np.array(["a", "b"])[C])
        return
    with raises(ValueError, "Unknown label type: continuous", "Use a regressor"):
        clone(estimator).fit(X, Y)
    if not get_tags(estimator).target_tags.multi_output:
        with pytest.raises((ValueError, NotImplementedError), match="1d array|one label a row"):
            clone(estimator).fit(X, np.stack([C, C], axis=1))
    for missing in (None, NAN, pd.NA):
        with raises(ValueError, "Input y contains NaN or None"):
            clone(estimator).fit(X, changed(np.array(["a", "b"], object)[C], 0, missing))
    with raises(ValueError, "y mixes labels of the types ['int', 'str']"):
        clone(estimator).fit(X, np.array(["a", 1], object)[C])


@every
def test_weights(estimator):
    if name_of(estimator).startswith("ThreeLearner"):
        pytest.skip("it takes no weights")
    y, shape = target(estimator), "sample_weight must hold one weight for each of the"
    for wrong, *parts in [
        *((np.ones(s), shape, f"shape == {s}, expected ({N},)") for s in [(N - 1,), (0,), (N, 1)]),
        (changed(np.ones(N), 5, -1.0), "Negative values in data passed to `sample_weight`"),
        (changed(np.ones(N), 5, NAN), "Input sample_weight contains NaN"),
        (changed(np.ones(N), 5, INF), "Input sample_weight contains infinity"),
        (np.zeros(N), "sample_weight is zero for every row; at least one must be"),
        (["a"] * N, "sample_weight must hold numbers"),
    ]:
        with raises(ValueError, *parts):
            clone(estimator).fit(X, y, sample_weight=wrong)


@every
def test_training_that_fails_leaves_the_model_as_it_was(estimator):
    y = target(estimator)
    model = clone(estimator).fit(X, y)
    before = model.predict(X)
    with raises(ValueError, "y has"):
        model.fit(X[:, 1:], y[1:])
    np.testing.assert_array_equal(model.predict(X), before)
    assert model.n_features_in_ == X.shape[1]


@every
def test_not_fitted(estimator):
    fresh, says = clone(estimator), f"This {name_of(estimator)} instance is not fitted yet"
    for method in filter(partial(hasattr, estimator), (*METHODS, "predict_log_proba", "transform")):
        with raises(NotFittedError, says):
            next(iter(getattr(fresh, method)(X)))
    for name in filter(partial(hasattr, type(estimator)), VIEWS):
        with raises(NotFittedError, "is not fitted yet"):
            getattr(fresh, name)
    for name in filter(partial(hasattr, type(estimator)), ("__len__", "get_depth", "get_n_leaves")):
        with raises(NotFittedError, "is not fitted yet"):
            getattr(fresh, name)()


@own
def test_arrays_on_two_gpus(estimator, monkeypatch):
    cupy = strict_cupy.install(monkeypatch)
    table = strict_cupy.on_gpu(cupy, X, 0)
    y = strict_cupy.on_gpu(cupy, target(estimator), 1)
    with raises(ValueError, "All arrays must be on one GPU", "X on cuda:0, y on cuda:1"):
        clone(estimator).fit(table, y)


WRONG: dict[str, tuple[str, list[Any]]] = {
    "n_estimators": ("an integer >= 1", [0, -1, 1.5, "3", NAN, True]),
    "warm_start": ("True or False", [1, None, "no"]),
    "verbose": ("a bool or an integer >= 0", [-1, 0.5, "yes", None]),
    "n_jobs": ("None or an integer other than 0", [0, 1.5, "all"]),
    "random_state": ("", ["seed", -1, 2**32]),
    "device": ("'auto', 'cpu', 'cuda'", ["gpu", None, 0]),
}
"""Wrong values of the parameters that most estimators have, and what the error allows."""


@every
def test_parameters(estimator):
    for name in WRONG.keys() & estimator.get_params(deep=False).keys():
        wants, values = WRONG[name]
        for value in values:
            with raises(ValueError, "must be", wants, f"got {value!r}"):
                clone(estimator).set_params(**{name: value}).fit(X, target(estimator))


LABELS = [
    np.array(["a", "b"]), np.array(["a", "b"], object), np.array([-5, 700]), np.array([0.0, 5.0]),
    np.array([3, 9], np.uint8), np.array([False, True]),
]  # fmt: skip


@own_first
def test_labels(estimator):
    if not is_classifier(estimator):
        pytest.skip("it predicts numbers")
    plain = clone(estimator).fit(X, C)
    for labels in LABELS:
        model = clone(estimator).fit(X, labels[C])
        np.testing.assert_array_equal(model.classes_, labels)
        np.testing.assert_array_equal(model.predict(X), labels[plain.predict(X)], strict=True)
        assert model.score(X, labels[C]) == plain.score(X, C)


@pytest.mark.parametrize(
    "estimator, make",
    list(zip(OWN + OF_OTHERS, cycle([pd.DataFrame, pl.DataFrame, pa.table]))),
    ids=name_of,
)
def test_frames(estimator, make):
    y = target(estimator)
    frame = make({f"f{j}": X[:, j] for j in range(X.shape[1])})
    model, plain = clone(estimator).fit(frame, y), clone(estimator).fit(X, y)
    np.testing.assert_allclose(model.predict(frame), plain.predict(X), rtol=1e-9)
    assert model.feature_names_in_.tolist() == ["f0", "f1", "f2"]


CONTAINERS = scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.csc_matrix
"""Three, so that classifiers and regressors, which take turns, meet both."""


@pytest.mark.parametrize(
    "estimator, container",
    list(zip(OWN + OF_OTHERS, cycle(CONTAINERS))),
    ids=name_of,
)
def test_sparse(estimator, container):
    zeros, y = np.where(np.abs(X) < 0.4, 0.0, X), target(estimator)
    dense, sparse = clone(estimator).fit(zeros, y), clone(estimator).fit(container(zeros), y)
    np.testing.assert_allclose(sparse.predict(container(zeros)), dense.predict(zeros), rtol=1e-4)


@every
def test_tensors(estimator):
    torch = pytest.importorskip("torch")
    y = target(estimator)
    model = clone(estimator).fit(torch.from_numpy(X), torch.from_numpy(y))
    found = model.predict(torch.from_numpy(X))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_array_equal(found.numpy(), clone(estimator).fit(X, y).predict(X))


@own
def test_float32_columns(estimator):
    y, narrow = target(estimator), np.asfortranarray(X.astype(np.float32))
    wide = narrow.astype(np.float64)
    model, plain = clone(estimator).fit(narrow, y), clone(estimator).fit(wide, y)
    np.testing.assert_array_equal(model.predict(narrow), plain.predict(wide))
