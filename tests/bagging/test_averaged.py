"""``Bagging.averaged``: boosted members as one model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

from gpuens import (
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    TreeExplainer,
    load,
)

X, Y = load_diabetes(return_X_y=True)
FAST: dict[str, Any] = {"n_estimators": 5, "max_leaf_nodes": 6}


def bag_of(target: np.ndarray = Y, *, of: dict[str, Any] = FAST, **settings: Any) -> Any:
    member = GradientBoostingRegressor(**of)
    return BaggingRegressor(member, n_estimators=3, **settings).fit(X, target)


def test_predictions_are_the_mean_of_the_members(tmp_path):
    bag = bag_of()
    model = bag.averaged()
    assert type(model) is GradientBoostingRegressor
    assert model.forest_.n_trees == model.n_iter_ == 15
    np.testing.assert_allclose(model.predict(X), bag.predict(X), rtol=1e-12)
    explainer = TreeExplainer(model)
    np.testing.assert_allclose(
        explainer.shap_values(X[:9]),
        np.mean([TreeExplainer(m).shap_values(X[:9]) for m in bag.estimators_], axis=0),
        atol=1e-9,
    )
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    assert [m.forest_.n_trees for m in bag.estimators_] == [5, 5, 5]


@pytest.mark.parametrize("settings", [
    {"loss": "poisson"}, {"dropout": 0.3}, {"linear_leaves": True},
    {"loss": "quantile", "quantile": 0.8},
], ids=str)  # fmt: skip
def test_raw_predictions_are_averaged_whatever_the_loss(settings):
    bag = bag_of(of=FAST | settings)
    model = bag.averaged()
    raw = np.mean([m.forest_.raw_predict(X) for m in bag.estimators_], axis=0)
    np.testing.assert_allclose(model.forest_.raw_predict(X), raw, rtol=1e-12)
    expected = np.exp(raw[0]) if settings.get("loss") == "poisson" else raw[0]
    np.testing.assert_allclose(model.predict(X), expected, rtol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("strategy", ["one_output_per_tree", "multi_output_tree"])
def test_classes_keep_their_labels(n_classes, strategy, tmp_path):
    table, number = load_iris(return_X_y=True)
    kept = number >= 3 - n_classes
    table, label = table[kept], np.array(["setosa", "versicolor", "virginica"])[number[kept]]
    member = GradientBoostingClassifier(**FAST, multi_strategy=strategy)
    bag = BaggingClassifier(member, n_estimators=3).fit(table, label)
    model = bag.averaged()
    model.save(tmp_path / "model")
    for each in (model, load(tmp_path / "model")):
        np.testing.assert_allclose(
            each.decision_function(table), bag.decision_function(table), rtol=1e-12, atol=1e-15
        )
        assert each.classes_.tolist() == bag.classes_.tolist()
        assert each.score(table, label) > 0.9
    # Probabilities are those of the mean score, not the mean of the members' probabilities.
    assert abs(model.predict_proba(table) - bag.predict_proba(table)).max() > 1e-6


def test_categories_are_those_of_all_rows():
    rng = np.random.default_rng(0)
    table = np.column_stack([rng.integers(0, 12, 400), rng.normal(size=400)])
    y = rng.normal(size=12)[table[:, 0].astype(int)] + table[:, 1]
    member = GradientBoostingRegressor(**FAST, categorical_features=[0])
    bag = BaggingRegressor(member, n_estimators=3).fit(table, y)
    np.testing.assert_allclose(bag.averaged().predict(table), bag.predict(table), rtol=1e-12)


def test_names_of_features_are_kept():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :3], columns=["a", "b", "c"])
    bag = BaggingRegressor(GradientBoostingRegressor(**FAST), n_estimators=2).fit(frame, Y)
    model = bag.averaged()
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(model.predict(frame), bag.predict(frame), rtol=1e-12)


@pytest.mark.parametrize("settings, kind, message", [
    ({"max_features": 0.5}, ValueError, "max_features=0.5"),
    ({"of": FAST | {"init": DecisionTreeRegressor(max_depth=1)}}, ValueError, "init=None"),
], ids=str)  # fmt: skip
def test_what_has_no_mean_is_refused(settings, kind, message):
    with pytest.raises(kind, match=message):
        bag_of(**settings).averaged()


def test_other_members_are_refused():
    bag = BaggingRegressor(DecisionTreeRegressor(max_depth=2), n_estimators=2).fit(X, Y)
    with pytest.raises(TypeError, match="DecisionTreeRegressor"):
        bag.averaged()


def test_members_that_know_other_classes_are_refused():
    table, label = load_iris(return_X_y=True)
    bag = BaggingClassifier(GradientBoostingClassifier(**FAST), n_estimators=2).fit(table, label)
    bag.estimators_[1].fit(table[:100], label[:100])
    with pytest.raises(ValueError, match="Raise max_samples"):
        bag.averaged()


def test_baseline_hazards_are_refused():
    bag = bag_of()
    bag.estimators_[0].baseline_cumulative_hazard_ = np.zeros(1)  # as loss="cox" learns it
    with pytest.raises(ValueError, match="cox"):
        bag.averaged()


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_members_in_threads_are_those_of_one_thread(n_jobs):
    alone, beside = (bag_of(of=FAST | {"n_jobs": 2}, n_jobs=n) for n in (1, n_jobs))
    for mine, other in zip(alone.estimators_, beside.estimators_, strict=True):
        assert mine.forest_.fingerprint() == other.forest_.fingerprint()
        assert other.n_jobs == 2
    assert alone.averaged().forest_.fingerprint() == beside.averaged().forest_.fingerprint()
