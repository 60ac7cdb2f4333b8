"""``cat_hash_groups="auto"``: more categories than bins, in the order of their mean gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor, load
from gpuens.boosting.steps.ranked_categories import FREQUENT, MeanGradients
from gpuens.boosting.steps.rare_categories import credible_rows
from gpuens.kernels.runtime.dispatch import Implementation, using

K = 600
OF_LEVELS: dict[str, Any] = {"categorical_features": [0], "n_estimators": 30}


def levels(
    rows: int, effect: float = 1.0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return rows to train on and to test on: ``K`` categories of the same size and a number."""
    rng = np.random.default_rng(seed)
    effects = effect * rng.normal(size=K)
    found: list[np.ndarray] = []
    for _ in range(2):
        category = rng.permutation(np.arange(K * rows) % K)
        X = np.column_stack([category, rng.normal(size=category.size)])
        found += [X, effects[category] + X[:, 1] + 0.5 * rng.normal(size=category.size)]
    return found[0], found[1], found[2], found[3]


@pytest.mark.parametrize("rows", [6, 12, 40])
def test_categories_beyond_the_bins_are_learned(rows):
    X, y, X_test, y_test = levels(rows)
    model = GradientBoostingRegressor(**OF_LEVELS | {"n_estimators": 60}).fit(X, y)
    assert model._binner.is_ranked.tolist() == [True, False]
    grouped = GradientBoostingRegressor(**OF_LEVELS, cat_hash_groups=1).fit(X, y)
    assert not grouped._binner.is_ranked.any()
    assert model.score(X_test, y_test) > 0.78 > grouped.score(X_test, y_test) + 0.05


def test_categories_of_noise_are_not_ranked():
    X, y, _, _ = levels(8, effect=0.0)
    model = GradientBoostingRegressor(**OF_LEVELS).fit(X, y)
    grouped = GradientBoostingRegressor(**OF_LEVELS, cat_hash_groups=1).fit(X, y)
    assert model.forest_.fingerprint() == grouped.forest_.fingerprint()


@pytest.mark.parametrize("settings", [
    {"linear_leaves": True}, {"dropout": 0.1}, {"max_bins": 255, "y": "two columns"},
], ids=str)  # fmt: skip
def test_what_cannot_rank_groups_the_rarest(settings):
    X, y, _, _ = levels(8)
    settings = dict(settings)
    y = np.column_stack([y, -y]) if settings.pop("y", None) else y
    fast = OF_LEVELS | {"n_estimators": 3} | settings
    model = GradientBoostingRegressor(**fast).fit(X, y)
    grouped = GradientBoostingRegressor(**fast, cat_hash_groups=1).fit(X, y)
    assert model.forest_.fingerprint() == grouped.forest_.fingerprint()


def test_evaluation_sets_and_predictions_reach_the_same_leaves():
    """Missing values are a category of their own, unknown ones go with them."""
    X, y, X_test, y_test = levels(8)
    X[::9, 0], X_test[::7, 0], X_test[3, 0] = np.nan, np.nan, 5000.0
    y[::9] += 3.0
    model = GradientBoostingRegressor(**OF_LEVELS).fit(X, y, eval_set=(X_test, y_test))
    assert model._binner.is_ranked[0]
    recorded = model.evals_result_["validation_0"]["loss"][-1]
    predicted = model.predict(X_test)
    assert recorded == pytest.approx(np.mean((predicted - y_test) ** 2) / 2, rel=1e-6)
    unknown, missing, known = model.predict(np.array([[5000.0, 0.0], [np.nan, 0.0], [3.0, 0.0]]))
    assert unknown == missing != known and missing > 2.0


@pytest.mark.parametrize("rows", [6, 40])
def test_a_row_of_a_rare_category_does_not_choose_its_own_bin(rows, monkeypatch):
    X, y, _, _ = levels(rows)
    found = []
    means_of = MeanGradients._means

    def keep(self: Any, *args: Any) -> Any:
        found.append(means_of(self, *args))
        return found[-1]

    monkeypatch.setattr(MeanGradients, "_means", keep)
    for further in (0.0, 1.0):
        other = y.copy()
        other[7] += further
        GradientBoostingRegressor(**OF_LEVELS | {"n_estimators": 1}).fit(X, other)
    (means, of_rows), (other_means, other_of_rows) = found
    category = int(X[7, 0])
    assert abs(means - other_means)[category] > 0.5 / rows
    moved = abs(of_rows - other_of_rows)[7]
    if rows < FREQUENT:
        assert moved < 0.01
    else:
        assert of_rows[7] == means[category] and moved > 0.5 / rows


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "poisson", "classes"])
def test_one_model_everywhere(loss, weighted, tmp_path):
    X, y, X_test, _ = levels(4)
    X[::50, 0] = np.nan
    weight = np.random.default_rng(2).integers(0, 3, y.size).astype(float) if weighted else None
    settings: dict[str, Any] = OF_LEVELS | {"n_estimators": 4, "subsample": 0.8}
    cls: Any = GradientBoostingRegressor
    if loss == "classes":
        cls, y = GradientBoostingClassifier, y > 0
    else:
        settings["loss"] = loss
        y = np.exp(0.5 * y) if loss == "poisson" else y
    models = [cls(**settings, n_jobs=n).fit(X, y, weight) for n in (1, 3)]
    with using(Implementation.REFERENCE):
        models.append(cls(**settings).fit(X, y, weight))
    assert models[0]._binner.is_ranked[0]
    assert len({model.forest_.fingerprint() for model in models}) == 1
    models[0].save(tmp_path / "model")
    np.testing.assert_array_equal(
        load(tmp_path / "model").predict(X_test), models[0].predict(X_test)
    )
    if weighted:  # rows of weight zero as if they were not there
        used = weight > 0
        apart = cls(**settings | {"subsample": 1.0}).fit(X[used], y[used], weight[used])
        whole = cls(**settings | {"subsample": 1.0}).fit(X, y, weight)
        np.testing.assert_array_equal(apart._binner.thresholds[0], whole._binner.thresholds[0])


def test_a_warm_start_keeps_the_bins():
    X, y, X_test, y_test = levels(8)
    half = GradientBoostingRegressor(**OF_LEVELS | {"n_estimators": 20}, warm_start=True).fit(X, y)
    before, score = half._binner.bins[0].copy(), half.score(X_test, y_test)
    half.set_params(n_estimators=60).fit(X, y)
    np.testing.assert_array_equal(half._binner.bins[0], before)
    assert half.score(X_test, y_test) > score
    with pytest.raises(ValueError, match="dropout"):
        half.set_params(n_estimators=70, dropout=0.1).fit(X, y)


def test_splits_are_sets_of_categories():
    X, y, _, _ = levels(8)
    forest = GradientBoostingRegressor(**OF_LEVELS).fit(X, y).forest_
    of_category = forest.feature == 0
    assert of_category.any() and (forest.category_begin[of_category] >= 0).all()
    assert (forest.threshold[of_category] == 0.0).all()


def test_the_estimate_of_credible_rows():
    """Without a limit it is the ratio of the variances that the values were drawn with."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4000), 5)
    values = rng.normal(size=4000)[groups] + 3.0 * rng.normal(size=groups.size)
    assert credible_rows(groups, values[None], None) == pytest.approx(9.0, rel=0.15)
    assert credible_rows(groups, values[None]) > credible_rows(groups, values[None], None)


def test_a_target_that_categories_explain_exactly():
    """Missing and unseen categories get the mean of all rows."""
    category = np.arange(3000) % 600
    X, y = np.column_stack([category, np.zeros(3000)]), (category % 4).astype(float)
    model = GradientBoostingRegressor(**OF_LEVELS | {"n_estimators": 50}).fit(X, y)
    unknown = model.predict(np.array([[9999.0, 0.0], [np.nan, 0.0]]))
    assert np.abs(unknown - y.mean()).max() < 1.0 and model.score(X, y) > 0.9


@pytest.mark.parametrize(
    ("more", "message"),
    [({"linear_leaves": True}, "linear_leaves=True"), ({"dropout": 0.5}, "dropout=0.5")],
)
def test_trees_that_cannot_follow_ranked_categories(more, message):
    X, y, _, _ = levels(6)
    model = GradientBoostingRegressor(**OF_LEVELS, warm_start=True).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.set_params(n_estimators=2 * model.n_estimators, **more).fit(X, y)
