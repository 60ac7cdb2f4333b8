"""What ``fit`` takes as labels is taken everywhere: by score, folds, evaluation sets, weights."""

from __future__ import annotations

import datetime
from decimal import Decimal
from fractions import Fraction
from itertools import cycle
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone, is_classifier
from sklearn.model_selection import cross_val_score

import gpuens
from gpuens import diversity
from gpuens.bias_variance import bias_variance
from gpuens.combining.logistic import LogisticRegression
from gpuens.inspection import drop_column_importance, permutation_importance
from gpuens.plotting import LearningCurveDisplay
from tests.conformance.estimators import PREDICTORS, name_of

pytestmark = pytest.mark.filterwarnings("ignore:Nothing was tuned")  # of a few rows
N = 48
RNG = np.random.default_rng(0)
CODES = RNG.permutation(np.arange(N) % 2)
X = np.column_stack([CODES + RNG.normal(scale=0.4, size=N), RNG.normal(size=N)])
BIG = 2**53


def objects(values):
    return np.array(values, object)


def series(dtype):
    return lambda values: pd.Series(values, dtype=dtype)


def column(values):
    """A column of a frame of objects, beside another one."""
    return pd.DataFrame({"y": objects(values), "z": "text"})["y"]


LABELS: dict[str, tuple[Any, Any, Any]] = {
    "object integers": (1, 2, column), "object booleans": (False, True, column),
    "object floats": (1.0, 2.0, column), "object text": ("a", "b", column),
    "nullable integers": (BIG, BIG + 1, series("Int64")),
    "nullable booleans": (False, True, series("boolean")),
    "integers of arrow": (BIG, BIG + 1, series("int64[pyarrow]")),
    "unsigned": (2**63, 2**63 + 1, lambda y: np.array(y, np.uint64)),
    "beyond int64": (-1, 2**63, list), "beyond uint64": (2**64, 2**64 + 1, objects),
    "large beside a float": (1.0, BIG + 1, list),
    "fractions": (Fraction(1, 3), Fraction(2, 3), list),
    "decimals": (Decimal("1.1"), Decimal("1.2"), pl.Series), "bytes": (b"a", b"b", pa.array),
    "dates": (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2), objects),
    "scalars of numpy": (np.int64(BIG), np.int64(BIG + 1), objects),
}  # fmt: skip
OF_SCIKIT = "bytes"
"""scikit-learn's folds refuse these by name."""
CLASSIFIERS = [clone(e) for e in PREDICTORS if is_classifier(e)] + [LogisticRegression()]
SETTINGS = [
    gpuens.GradientBoostingClassifier(n_estimators=3, early_stopping=True, scoring=None),
    gpuens.GradientBoostingClassifier(n_estimators=3, early_stopping=True, scoring="roc_auc"),
    gpuens.GradientBoostingClassifier(n_estimators=3, class_weight="balanced"),
    gpuens.RandomForestClassifier(n_estimators=20, oob_score=True, class_weight="balanced"),
    gpuens.RandomForestClassifier(n_estimators=5, class_weight="balanced_subsample"),
    gpuens.BaggingClassifier(n_estimators=20, oob_score=True),
    gpuens.AdaBoostClassifier(gpuens.GradientBoostingClassifier(n_estimators=2), n_estimators=2),
    gpuens.BaggingClassifier(gpuens.AdaBoostClassifier(n_estimators=2), n_estimators=2),
    gpuens.VotingClassifier(
        [("a", gpuens.DecisionTreeClassifier()), ("b", gpuens.ExtraTreeClassifier())],
        weights="greedy",
    ),
]
every_kind = pytest.mark.parametrize("kind", LABELS)


def in_turns(values, kinds=LABELS, times=1):
    """So many kinds of labels for each value, each kind as often as the others."""
    repeated = [value for value in values for _ in range(times)]
    return list(zip(repeated, cycle(kinds)))


def of_codes(kind, codes=CODES):
    """Labels of a kind, the two of them, and the container."""
    low, high, container = LABELS[kind]
    return container([high if code else low for code in codes]), [low, high]


def numbers_of(labels, classes):
    return [classes.index(label) for label in np.asarray(labels, object).tolist()]


@pytest.fixture(scope="module")
def by_numbers():
    """Models of the class numbers themselves, one of each estimator."""
    fitted: dict[str, Any] = {}

    def model_of(estimator):
        key = repr(estimator.get_params())
        if key not in fitted:
            fitted[key] = clone(estimator).fit(X, CODES)
        return fitted[key]

    return model_of


@pytest.mark.parametrize("estimator, kind", in_turns(CLASSIFIERS + SETTINGS, times=3), ids=name_of)
def test_fit_and_score(estimator, kind, by_numbers):
    """The model is that of the numbers 0 and 1, and its classes are the labels themselves."""
    y, classes = of_codes(kind)
    model, expected = clone(estimator).fit(X, y), by_numbers(estimator)
    assert model.classes_.tolist() == classes
    assert [type(c) for c in model.classes_.tolist()] == [type(_plain(c)) for c in classes]
    assert numbers_of(model.predict(X), classes) == expected.predict(X).tolist()
    assert model.score(X, y) == expected.score(X, CODES)
    weight = np.arange(1.0, N + 1)
    assert model.score(X, y, weight) == expected.score(X, CODES, weight)
    for name in ("oob_score_", "validation_score_", "oob_decision_function_"):
        if hasattr(expected, name):
            np.testing.assert_array_equal(getattr(model, name), getattr(expected, name))


def _plain(label):
    return label.item() if isinstance(label, np.generic) else label


@pytest.mark.parametrize(
    "estimator, kind",
    in_turns(CLASSIFIERS, ["object integers", "object booleans", "object floats"]),
    ids=name_of,
)
def test_cross_validation(estimator, kind):
    y, _ = of_codes(kind)
    few = {"error_score": "raise", "cv": [(np.arange(40), np.arange(40, N))]}
    found = cross_val_score(clone(estimator), X, y, **few)
    np.testing.assert_array_equal(found, cross_val_score(clone(estimator), X, CODES, **few))


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=name_of)
def test_unknown_labels_are_not_predicted(estimator):
    y = objects([int(code) for code in CODES])
    model = clone(estimator).fit(X, y)
    other = y.copy()
    other[:12] = 7
    right = (model.predict(X) == CODES)[12:].sum()
    with pytest.warns(UserWarning, match=f"y holds labels that fit has not seen: 7, in 12 of {N}"):
        assert model.score(X, other) == pytest.approx(right / N)
    with pytest.raises(ValueError, match="y holds labels such as '0', .* such as 0. Pass labels"):
        model.score(X, [str(label) for label in y])


SEARCHES = [gpuens.GridSearchCV, gpuens.RandomizedSearchCV]


@pytest.mark.parametrize("kind, search", list(zip(LABELS, cycle(SEARCHES))))
@pytest.mark.parametrize("scoring", [None, "accuracy"])
def test_searches(kind, search, scoring):
    if scoring is not None and kind in ("beyond int64", "beyond uint64", "large beside a float",
                                        "fractions", "decimals", "dates", OF_SCIKIT):  # fmt: skip
        pytest.skip("scikit-learn's metrics refuse these labels by name")
    if kind == OF_SCIKIT:
        pytest.skip("scikit-learn's folds refuse these labels by name")
    y, _ = of_codes(kind)
    grid = {"max_depth": [1, 2]}
    few = {"cv": 2, "error_score": "raise", "scoring": scoring}
    few |= {"n_iter": 2} if search is gpuens.RandomizedSearchCV else {}
    found, expected = (
        search(gpuens.DecisionTreeClassifier(), grid, **few).fit(X, labels).cv_results_
        for labels in (y, CODES)
    )
    if scoring == "accuracy" or kind.startswith(("object", "nullable", "integers")):  # folds, too
        np.testing.assert_array_equal(found["mean_test_score"], expected["mean_test_score"])
    assert (found["mean_test_score"] > 0.5).all()


WEIGHTED = [
    gpuens.DecisionTreeClassifier, gpuens.RandomForestClassifier, gpuens.GradientBoostingClassifier,
]  # fmt: skip


@pytest.mark.parametrize("kind, cls", list(zip(LABELS, cycle(WEIGHTED))))
def test_class_weight(kind, cls):
    y, classes = of_codes(kind)
    few = {} if cls is gpuens.DecisionTreeClassifier else {"n_estimators": 3}
    model = cls(class_weight=dict(zip(classes, [3.0, 1.0], strict=True)), **few).fit(X, y)
    expected = cls(class_weight={0: 3.0, 1: 1.0}, **few).fit(X, CODES)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@every_kind
def test_evaluation_sets(kind):
    y, _ = of_codes(kind)
    settings = {"n_estimators": 3, "scoring": ["loss", "accuracy"]}
    model = gpuens.GradientBoostingClassifier(**settings).fit(X, y, eval_set=(X, y))
    expected = gpuens.GradientBoostingClassifier(**settings).fit(X, CODES, eval_set=(X, CODES))
    assert model.evals_result_ == expected.evals_result_


@every_kind
def test_importances(kind):
    y, _ = of_codes(kind)
    tree = gpuens.DecisionTreeClassifier(max_depth=2)
    for measure in (permutation_importance, drop_column_importance):
        folds = {"cv": [(np.arange(24), np.arange(24, 48))]}
        more = folds if measure is drop_column_importance else {}
        found, expected = (measure(tree.fit(X, labels), X, labels, **more) for labels in (y, CODES))
        np.testing.assert_array_equal(found.importances, expected.importances)


@every_kind
def test_bias_and_variance(kind):
    y, _ = of_codes(kind)
    tree = gpuens.DecisionTreeClassifier(max_depth=2)
    found, expected = (bias_variance(tree, X, labels, rounds=5) for labels in (y, CODES))
    assert (found.error, found.bias, found.variance) == (
        expected.error, expected.bias, expected.variance,
    )  # fmt: skip


@every_kind
def test_diversity(kind):
    y, _ = of_codes(kind)
    for measure in (diversity.entropy, diversity.disagreement, diversity.difficulty):
        found, expected = (
            measure(gpuens.BaggingClassifier(n_estimators=4).fit(X, labels), labels, X=X)
            for labels in (y, CODES)
        )
        np.testing.assert_array_equal(found, expected)


@every_kind
def test_learning_curves(kind):
    y, _ = of_codes(kind)
    found, expected = (
        LearningCurveDisplay.from_estimator(
            gpuens.AdaBoostClassifier(n_estimators=3).fit(X, labels), {"all": (X, labels)}
        ).curves["all"]
        for labels in (y, CODES)
    )
    plt.close("all")
    np.testing.assert_array_equal(found, expected)


MULTI = [gpuens.DecisionTreeClassifier(), gpuens.RandomForestClassifier(n_estimators=5)]


@pytest.mark.parametrize("estimator", MULTI, ids=name_of)
@pytest.mark.parametrize("make", [
    lambda a, b: pd.DataFrame({"a": pd.Series(a, dtype="Int64"), "b": b}),
    lambda a, b: pl.DataFrame({"a": a, "b": b}), lambda a, b: pa.table({"a": a, "b": b}),
    lambda a, b: [list(row) for row in zip(a, b, strict=True)],
    lambda a, b: np.array([a, b], object).T,
])  # fmt: skip
def test_several_outputs(estimator, make):
    first, second = [BIG + code for code in CODES.tolist()], ["ab"[code] for code in CODES[::-1]]
    y, codes = make(first, second), np.column_stack([CODES, CODES[::-1]])
    model, expected = clone(estimator).fit(X, y), clone(estimator).fit(X, codes)
    assert [c.tolist() for c in model.classes_] == [[BIG, BIG + 1], ["a", "b"]]
    right = (expected.predict(X) == codes).all(axis=1).mean()
    assert model.score(X, y) == expected.score(X, codes) == right


def test_labels_that_fit_has_not_seen_are_named():
    X, y = np.arange(20.0)[:, None], np.repeat(["no", "yes"], 10)
    model = gpuens.DecisionTreeClassifier().fit(X, y)
    unseen = np.where(np.arange(20) % 5 == 0, np.arange(20).astype(str), y)
    with pytest.warns(UserWarning, match="not seen: '0', '5', '10', '15', in 4 of 20 rows"):
        assert model.score(X, unseen) == 0.8
    many = np.array([f"label {i}" for i in range(19)] + ["yes"])
    with pytest.warns(UserWarning, match="'label 9' and 9 more, in 19 of 20 rows"):
        model.score(X, many)
