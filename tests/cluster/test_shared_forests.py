"""Workers that share the rows of a table grow the forests of ``fit``, bit for bit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import gpuens
from gpuens.kernels.runtime.collective import Alone, Workers, sharing
from gpuens.trees import sharing as trees_sharing
from tests.cluster.test_shared_rows import CUTS, TARGETS, WEIGHT, N, X, fit_shared, in_turns

pytestmark = pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores")

RC, RR = gpuens.RandomForestClassifier, gpuens.RandomForestRegressor
BC, BR = gpuens.BaggingClassifier, gpuens.BaggingRegressor
EXACT = gpuens.DecisionTreeClassifier(max_depth=3, class_weight="balanced")
EC, ER = gpuens.ExtraTreesClassifier, gpuens.ExtraTreesRegressor

CASES: list[tuple[type, str, bool, dict[str, Any]]] = [
    (RC, "classes", False, {}),
    (RC, "binary", True, {"class_weight": "balanced", "max_samples": 0.3}),
    (RC, "classes", True, {"class_weight": "balanced_subsample", "ccp_alpha": 0.002}),
    (RC, "classes", True, {"categorical_features": [3, 9], "max_bins": 4, "max_leaf_nodes": 40}),
    (RR, "reg", True, {"monotonic_cst": [1, -1, 0, 0, 0, 0, 1, 0, 0, 0]}),
    (RR, "two", False, {"max_bins": None, "n_estimators": 4}),
    (RR, "positive", True, {"criterion": "poisson", "max_depth": 5}),
    (RR, "reg", False, {"criterion": "absolute_error", "max_depth": 4}),
    (EC, "classes", False, {"bootstrap": True, "criterion": "entropy"}),
    (ER, "reg", True, {"bootstrap": True, "categorical_features": [9]}),
    (RR, "reg", True, {"honest": True, "max_bins": 30}),
    (RR, "two", False, {"honest": True, "min_samples_leaf": 40, "max_samples": 0.4}),
    (RR, "positive", False, {"honest": True, "criterion": "poisson", "max_depth": 4}),
    (RR, "reg", False, {"honest": True, "monotonic_cst": [1, -1, 0, 0, 0, 0, 1, 0, 0, 0]}),
    (RC, "classes", True, {"honest": True, "class_weight": "balanced_subsample"}),
    (EC, "binary", True, {"honest": True, "bootstrap": True, "categorical_features": [3, 9]}),
]  # fmt: skip


def of_all_workers(model: Any, y: Any, weight: Any, ends: list[int]) -> list[Any]:
    return fit_shared(model, (X, y, weight), ends)


@pytest.mark.parametrize(
    ("cls", "target", "weighted", "params", "ends"),
    in_turns(CASES),
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else None,
)
def test_the_forest_is_that_of_fit(cls, target, weighted, params, ends):
    settings = {"n_estimators": 7, "random_state": 3, "device": "cpu", "oob_score": True}
    model = cls(**settings | params)
    y, weight = TARGETS[target], WEIGHT if weighted else None
    plain = cls(**model.get_params()).fit(X, y, weight)
    for shared in of_all_workers(model, y, weight, ends):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert shared.oob_score_ == plain.oob_score_
        assert np.array_equal(shared.oob_scores_path_, plain.oob_scores_path_)
        assert np.array_equal(shared.feature_importances_, plain.feature_importances_)
        assert np.array_equal(shared.predict(X[:50]), plain.predict(X[:50]))


@pytest.mark.parametrize("weighted, params", [
    (False, {}), (True, {"bootstrap": True, "contamination": 0.1, "max_samples": 700}),
    (False, {"max_features": 0.4, "contamination": 0.2}),
])  # fmt: skip
def test_isolation_forests(weighted, params):
    model = gpuens.IsolationForest(n_estimators=9, random_state=3, device="cpu", **params)
    weight = WEIGHT if weighted else None
    plain = gpuens.IsolationForest(**model.get_params()).fit(X, None, weight)
    for n_workers in (1, 2, 5):
        for shared in of_all_workers(model, None, weight, CUTS[n_workers]):
            assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
            assert shared.offset_ == plain.offset_
            assert np.array_equal(shared.score_samples(X), plain.score_samples(X))


@pytest.mark.parametrize("cls, target, weighted, params", [
    (BC, "classes", False, {}), (BC, "binary", False, {"voting": "hard", "max_samples": 0.3}),
    (BC, "classes", False, {"estimator": EXACT, "max_samples": 40}),
    (BR, "reg", True, {"bootstrap": False, "max_samples": 2000, "oob_score": False}),
    (BR, "two", False, {"estimator": gpuens.ExtraTreeRegressor(max_bins=64, ccp_alpha=0.01)}),
])  # fmt: skip
def test_bags_of_trees(cls, target, weighted, params):
    settings = {"n_estimators": 5, "random_state": 3, "device": "cpu", "oob_score": True}
    model = cls(**settings | params)
    y, weight = TARGETS[target], WEIGHT if weighted else None
    with warnings.catch_warnings(action="ignore"):
        plain = cls(**model.get_params(deep=False)).fit(X[:, :5], y, weight)
        shared = fit_shared(model, (X[:, :5], y, weight), CUTS[3])
    for each in shared:
        for own, theirs in zip(each.estimators_, plain.estimators_, strict=True):
            assert own.forest_.fingerprint() == theirs.forest_.fingerprint()
        assert np.array_equal(each.predict(X[:50, :5]), plain.predict(X[:50, :5]))
        if model.oob_score:
            assert each.oob_score_ == plain.oob_score_
            name = "oob_decision_function_" if cls is BC else "oob_prediction_"
            assert np.array_equal(getattr(each, name), getattr(plain, name), equal_nan=True)


@pytest.mark.parametrize("params, message", [
    ({"estimator": LinearRegression()}, r"estimator=LinearRegression\(\) is not .* use a tree"),
    ({"max_features": 0.5}, "max_features=0.5 is not supported .* set max_features=1.0"),
    ({"max_samples": 200}, "max_samples=200 is not supported .* use other samples"),
])  # fmt: skip
def test_bags_that_workers_do_not_fit(params, message):
    with (
        sharing(Workers(Alone(), 0, 80, 80)),
        pytest.raises(NotImplementedError, match=message),
    ):
        BR(device="cpu", **params).fit(X[:80], TARGETS["reg"][:80])


@pytest.mark.parametrize("n_workers", CUTS)
def test_any_number_of_workers(n_workers, monkeypatch):
    """Columns are binned one by one, trees exchanged in small and large numbers."""
    monkeypatch.setattr(trees_sharing, "DEALT_BYTES", 1)
    model = RC(n_estimators=23, random_state=3, device="cpu", max_depth=3, n_jobs=1)
    y = TARGETS["binary"]
    plain = RC(**model.get_params()).fit(X, y)
    for shared in of_all_workers(model, y, None, CUTS[n_workers]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()
        assert shared.classes_.tolist() == plain.classes_.tolist()


@pytest.mark.parametrize("n_workers", CUTS)
def test_honest_trees(n_workers, monkeypatch):
    """Fewer trees than workers, whose leaves are sent one tree at a time, or all together."""
    model = RC(n_estimators=4, random_state=3, device="cpu", honest=True, max_bins=20)
    y = TARGETS["classes"]
    plain = RC(**model.get_params()).fit(X, y)
    assert plain.forest_.fingerprint() != RC(
        **model.get_params() | {"honest": False}
    ).fit(X, y).forest_.fingerprint()  # fmt: skip
    for message_bytes in (trees_sharing.MESSAGE_BYTES, 1):
        monkeypatch.setattr(trees_sharing, "MESSAGE_BYTES", message_bytes)
        for shared in of_all_workers(model, y, None, CUTS[n_workers]):
            assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_a_single_worker_and_few_rows():
    rows = X[:80], TARGETS["reg"][:80]
    model = RR(n_estimators=5, random_state=3, device="cpu")
    plain = RR(**model.get_params()).fit(*rows)
    with sharing(Workers(Alone(), 0, 80, 80)):
        shared = RR(**model.get_params()).fit(*rows)
    assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
def test_cut_points_of_a_sample(monkeypatch, weight):
    from gpuens.inputs import binning
    from gpuens.trees import table

    monkeypatch.setattr(binning, "SAMPLE_SIZE", 3_000)
    monkeypatch.setattr(table, "SAMPLE_SIZE", 3_000)
    model = RR(n_estimators=3, random_state=5, device="cpu", max_bins=30)
    plain = RR(**model.get_params()).fit(X, TARGETS["reg"], weight)
    for shared in of_all_workers(model, TARGETS["reg"], weight, CUTS[3]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_rows_of_weight_zero():
    """The model of workers is that of the other rows; some workers have none of these."""
    weight, used = WEIGHT, WEIGHT > 0
    model = ER(n_estimators=4, random_state=5, device="cpu", max_bins=30, bootstrap=False)
    plain = ER(**model.get_params()).fit(X[used], TARGETS["reg"][used], weight[used])
    for shared in of_all_workers(model, TARGETS["reg"], weight, CUTS[5]):
        assert shared.forest_.fingerprint() == plain.forest_.fingerprint()


def test_a_warm_start_of_kept_trees():
    """Training goes on with the trees that were exchanged before a worker was lost."""
    model = RC(n_estimators=9, random_state=3, device="cpu", oob_score=True, ccp_alpha=0.002)
    y = TARGETS["classes"]
    plain = RC(**model.get_params()).fit(X, y)
    kept: list[Any] = []

    def fit(before: Any) -> Any:
        def work(collective):
            ends = CUTS[2]
            own = slice([0, *ends][collective.rank], ends[collective.rank])
            share = Workers(collective, own.start, own.stop - own.start, N)
            other = RC(**model.get_params()) if before is None else before[collective.rank]
            with sharing(share), trees_sharing.watching(lambda trees: kept.append(list(trees))):
                return other.fit(X[own], y[own])

        from tests.support.thread_workers import run_workers

        return run_workers(2, work)

    whole = fit(None)
    assert all(each.forest_.fingerprint() == plain.forest_.fingerprint() for each in whole)
    first = min(kept, key=len)
    partial = RC(**model.get_params()).set_params(n_estimators=first[0].n_trees).fit(X, y)
    partials = [partial, RC(**partial.get_params()).fit(X, y)]
    for each in partials:
        each.set_params(n_estimators=9, warm_start=True)
    for each in fit(partials):
        assert each.forest_.fingerprint() == plain.forest_.fingerprint()
        assert each.oob_score_ == plain.oob_score_


def test_refused_settings():
    with (
        sharing(Workers(Alone(), 0, 80, 80)),
        pytest.raises(NotImplementedError, match="QuantileForestRegressor cannot be trained where"),
    ):
        gpuens.QuantileForestRegressor().fit(X[:80], TARGETS["reg"][:80])


def test_an_error_of_one_worker_names_the_cause():
    y = TARGETS["positive"].copy()
    y[-1] = -1.0
    with pytest.raises(ValueError, match="negative which is not allowed for Poisson"):
        of_all_workers(RR(criterion="poisson", device="cpu"), y, None, CUTS[3])
