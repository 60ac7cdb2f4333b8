"""Categorical features in gradient boosting."""

from __future__ import annotations

import pickle
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.boosting.steps.rare_categories import credible_rows
from gpuens.devices.placement import CPU
from gpuens.inputs.binning import Binner
from gpuens.inputs.category_bins import CategoryBinner, with_bins_of_categories
from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.saving import load, save
from tests.support.lanes import few

DATA = Path(__file__).parents[3] / "shared" / "data"
SMALL: dict[str, Any] = {"n_estimators": 6, "max_leaf_nodes": 8, "min_samples_leaf": 3}
STUMP: dict[str, Any] = {
    "n_estimators": 1, "learning_rate": 1.0, "max_leaf_nodes": 2, "min_samples_leaf": 1,
    "l2_regularization": 0.0, "categorical_features": [0],
}  # fmt: skip


def table(n: int = 500, n_categories: int = 12, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Categories whose effects have nothing to do with their numbers, a small feature of
    categories, a number, missing values in all."""
    rng = np.random.default_rng(seed)
    effect = np.random.default_rng(1).normal(size=n_categories)
    category = np.minimum(rng.geometric(2 / n_categories, n), n_categories) - 1
    X = np.stack([category, rng.integers(0, 3, n), rng.normal(size=n)], axis=1).astype(float)
    y = 2 * effect[category] + (X[:, 1] == 1) * X[:, 2] + 0.3 * rng.normal(size=n)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


def best_partition(category: np.ndarray, y: np.ndarray, least: int) -> tuple[float, set[int]]:
    """(sum of squares, one side) of the best of all partitions of the categories in two."""
    levels = np.unique(category).tolist()
    best = (np.inf, set(levels))
    for size in range(1, len(levels)):
        for side in combinations(levels, size):
            left = np.isin(category, side)
            if min(left.sum(), (~left).sum()) < least:
                continue
            error = sum(((part - part.mean()) ** 2).sum() for part in (y[left], y[~left]))
            best = min(best, (error, set(side)), key=lambda found: found[0])
    return best


@pytest.mark.parametrize("seed", range(4))
def test_a_split_is_the_best_of_all_partitions(seed):
    """Without smoothing, the cut in the order of the means is (Fisher 1958)."""
    rng = np.random.default_rng(seed)
    category = rng.integers(0, 8, 150)
    y = rng.normal(size=8)[category] + 0.5 * rng.normal(size=150)
    model = GradientBoostingRegressor(**STUMP, cat_smooth=0.0).fit(category[:, None], y)
    error, side = best_partition(category, y, 1)
    predicted = model.predict(category[:, None])
    np.testing.assert_allclose(((y - predicted) ** 2).sum(), error, rtol=1e-5)
    in_side = np.isin(category, sorted(side))
    assert np.unique(predicted[in_side]).size == np.unique(predicted[~in_side]).size == 1


@pytest.mark.parametrize("n", [2, 3, 4])
def test_few_categories_are_split_one_against_the_others(n):
    rng = np.random.default_rng(n)
    category = rng.integers(0, n, 100)
    y = np.array([0.0, 1.0, 0.1, 1.2])[category] + 0.01 * rng.normal(size=100)
    model = GradientBoostingRegressor(**STUMP, cat_smooth=0.0).fit(category[:, None], y)
    errors = [
        sum(((part - part.mean()) ** 2).sum() for part in (y[category == c], y[category != c]))
        for c in range(n)
    ]
    predicted = model.predict(category[:, None])
    np.testing.assert_allclose(((y - predicted) ** 2).sum(), min(errors), rtol=1e-5)
    alone = predicted == predicted[category == int(np.argmin(errors))][0]
    assert (alone == (category == int(np.argmin(errors)))).all() or n == 2
    other = GradientBoostingRegressor(**STUMP, cat_smooth=0.0, max_cat_to_onehot=1)
    other.fit(category[:, None], y)
    np.testing.assert_allclose(
        ((y - other.predict(category[:, None])) ** 2).sum(), best_partition(category, y, 1)[0],
        rtol=1e-5,
    )  # fmt: skip


def test_the_order_is_smoothed():
    """A light category (20, ten rows) is nearer to the first one (30) than the third (12) is, and
    leaves it alone without smoothing. Smoothed, it comes behind the third and brings it along."""
    category = np.repeat(np.arange(43), [100, 10, *[100] * 41])
    y = np.array([30.0, 20.0, 12.0] + [0.0] * 40)[category]
    for cat_smooth, expected in ((0.0, [0, 1]), (10.0, [0, 1, 2])):
        stump = GradientBoostingRegressor(**STUMP, cat_smooth=cat_smooth)
        predicted = stump.fit(category[:, None], y).predict(np.arange(43.0)[:, None])
        assert np.flatnonzero(predicted == predicted[0]).tolist() == expected


def test_rare_missing_and_unseen_categories_go_together():
    rng = np.random.default_rng(0)
    category = np.repeat([0.0, 1, 2, 3, 4, 5, np.nan], [80, 80, 80, 80, 80, 4, 40])
    y = np.r_[np.repeat([0.0, 1, 0, 1, 0], 80), np.full(4, 7.0), np.full(40, 1.0)]
    y = y + 0.01 * rng.normal(size=y.size)
    model = GradientBoostingRegressor(**STUMP, cat_smooth=5.0).fit(category[:, None], y)
    predicted = model.predict(np.array([[0.0], [1], [2], [3], [4], [5], [np.nan], [6], [99]]))
    assert predicted[1] == predicted[3] and predicted[0] == predicted[2] == predicted[4]
    assert predicted[1] > predicted[0]
    assert set(predicted[5:]) == {predicted[1]}  # the side of the missing values' targets
    y[-40:] = 0.0
    y[-44:-40] = 0.5
    model.fit(category[:, None], y)
    predicted = model.predict(np.array([[0.0], [1], [5], [np.nan], [6]]))
    assert set(predicted[2:]) == {predicted[0]} and predicted[0] < predicted[1]


def fit_binner(X, n_categories, max_bins, seed, n_groups=1):
    numeric = Binner.fit(X, None, max_bins, seed, CPU)
    of_feature = np.array([n_categories])
    return with_bins_of_categories(numeric, X, None, of_feature, max_bins, seed, CPU, n_groups)


def test_more_categories_than_bins():
    """The most frequent ones keep bins of their own; predictions agree with the leaves."""
    rng = np.random.default_rng(0)
    category = np.minimum(rng.geometric(0.01, 6000), 400) - 1
    y = rng.normal(size=400)[category] + 0.1 * rng.normal(size=6000)
    binner = fit_binner(category[:, None].astype(float), 400, 100, 0)
    assert isinstance(binner, CategoryBinner) and binner.n_bins.tolist() == [100]
    (bins,) = binner.bins
    counts = np.bincount(category, minlength=400)
    shared = np.flatnonzero(bins == 99)
    assert shared.size == 301
    assert counts[shared].max() <= np.delete(counts, shared).min()
    assert sorted(np.delete(bins, shared).tolist()) == list(range(99))
    model = GradientBoostingRegressor(
        n_estimators=100, max_bins=100, categorical_features=[0], cat_hash_groups=1
    )
    model.fit(category[:, None], y)
    X = np.arange(400.0)[:, None]
    assert np.unique(model.predict(X)[shared]).size == 1
    assert model.score(category[:, None], y) > 0.6


@pytest.mark.parametrize("groups", few([1, 7, 40, 100], 1, 3))
def test_rare_categories_are_hashed_into_groups(groups):
    """The frequent ones keep their bins, the groups are of about the same size, and a model sees
    no more than the groups."""
    rng = np.random.default_rng(0)
    category = np.minimum(rng.geometric(0.004, 9000), 1000) - 1
    y = rng.normal(size=1000)[category]
    X = category[:, None].astype(float)
    (bins,) = fit_binner(X, 1000, 100, 3, groups).bins
    counts = np.bincount(category, minlength=1000)
    hashed = bins >= 100 - groups
    assert hashed.sum() == 1000 - (100 - groups)
    assert not groups < 100 or counts[hashed].max() <= counts[~hashed].min()
    sizes = np.bincount(bins[hashed] - (100 - groups), minlength=groups)
    assert sizes.size == groups
    assert sizes.max() <= hashed.sum() / groups + 5 * np.sqrt(hashed.sum() / groups)
    model = GradientBoostingRegressor(
        max_bins=100, cat_hash_groups=groups, categorical_features=[0], random_state=3
    ).fit(X, y)
    known = np.flatnonzero(counts)
    (bins,) = model._binner.bins
    predicted = model.predict(known[:, None].astype(float))
    of_bin = {b: predicted[bins == b] for b in np.unique(bins)}
    assert all(np.unique(values).size == 1 for values in of_bin.values())
    assert np.unique(predicted).size > min(50, groups)


@pytest.mark.parametrize("subsample", [1.0, 0.6])
def test_training_and_prediction_reach_the_same_leaves(subsample):
    """The loss recorded while training, by codes, is that of the predictions, by categories."""
    X, y = table()
    X_eval, y_eval = table(seed=5)
    X_eval[:7, 0] = 77  # unseen
    model = GradientBoostingRegressor(
        **SMALL, categorical_features=[0, 1], subsample=subsample, l2_regularization=0.0
    ).fit(X, y, eval_set=(X_eval, y_eval))
    recorded = model.evals_result_["validation_0"]["loss"][-1]
    np.testing.assert_allclose(
        ((model.predict(X_eval) - y_eval) ** 2).mean() / 2, recorded, rtol=1e-12
    )
    assert (model.forest_.category_begin >= 0).any()
    if subsample == 1.0:
        leaves = model.apply(X)
        for t in range(model.forest_.n_trees):
            first = model.forest_.offset[t]
            n_samples = model.forest_.n_samples[first + np.arange(leaves[:, t].max() + 1)]
            reached = np.bincount(leaves[:, t])
            assert (reached[reached > 0] == n_samples[reached > 0]).all()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_leaf_nodes": None, "max_depth": 3, "min_samples_leaf": 20},
        {"monotonic_cst": [0, 0, 1], "interaction_cst": [{0, 2}, {1, 2}]},
        {"max_bins": 7, "colsample_bynode": 0.7},
        {"max_cat_to_onehot": 20, "cat_smooth": 2.0},
        {"max_cat_to_onehot": 1, "loss": "absolute_error"},
        {"loss": "squared_error", "subsample": 0.7, "n_estimators": 3},
    ],
    ids=str,
)
def test_one_model_everywhere(settings):
    X, y = table(300)
    settings = SMALL | {"categorical_features": [0, 1]} | settings
    models = [GradientBoostingRegressor(**settings, n_jobs=n).fit(X, y) for n in (1, 3)]
    with using(Implementation.REFERENCE):
        models.append(GradientBoostingRegressor(**settings).fit(X, y))
    assert len({model.forest_.fingerprint() for model in models}) == 1


def levels(sizes: Any, effect: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """A category of levels with so many rows and two columns of noise, in order of no meaning; the
    target is the level's effect and noise of 0.1. Training rows, test rows."""
    rng = np.random.default_rng(seed)
    effects = effect * rng.normal(size=len(sizes))
    of_rows = np.repeat(np.arange(len(sizes)), sizes)
    found = []
    for _ in range(2):
        category = rng.permutation(of_rows)
        X = np.column_stack([category, rng.normal(size=(category.size, 2))])
        found += [X, effects[category] + 0.1 * rng.normal(size=category.size)]
    return tuple(found)


OF_LEVELS: dict[str, Any] = {"categorical_features": [0], "n_estimators": 100}
MIXED = [8] * 100 + [50] * 100


@pytest.mark.parametrize("sizes", [*([n] * 200 for n in (2, 4, 8, 9, 10, 15)), MIXED])
def test_rare_categories_that_differ_are_learned(sizes):
    """A cliff where all have fewer rows than ``cat_smooth`` would lose all there is to learn."""
    X, y, X_test, y_test = levels(sizes, 1.0)
    model = GradientBoostingRegressor(**OF_LEVELS).fit(X, y)
    assert model.score(X_test, y_test) >= 0.95
    fixed = GradientBoostingRegressor(**OF_LEVELS, cat_smooth=10.0).fit(X, y)
    if min(sizes) < 10:  # a number keeps its meaning
        assert fixed.score(X_test, y_test) < 0.94
    else:
        assert fixed.forest_.fingerprint() == model.forest_.fingerprint()


@pytest.mark.parametrize("sizes", [[4] * 200, [8] * 200, MIXED])
def test_rare_categories_of_noise_are_left_alone(sizes):
    X, y, _, _ = levels(sizes, 0.0)
    model = GradientBoostingRegressor(**OF_LEVELS | {"n_estimators": 10}).fit(X, y)
    fixed = clone(model).set_params(cat_smooth=10.0).fit(X, y)
    assert fixed.forest_.fingerprint() == model.forest_.fingerprint()


def test_a_feature_is_smoothed_by_its_own_categories():
    """Rare categories of noise beside others of meaning are still too rare to judge."""
    X, y, _, _ = levels([8] * 200, 1.0)
    X[:, 1] = np.random.default_rng(5).permutation(X[:, 0])
    model = GradientBoostingRegressor(n_estimators=20, categorical_features=[0, 1]).fit(X, y)
    assert set(model.forest_.feature[model.forest_.feature >= 0].tolist()) <= {0, 2}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "classes", "subsample"])
def test_rare_categories_give_one_model_everywhere(loss, weighted):
    X, y, X_test, y_test = levels([8] * 60, 1.0)
    weight = np.random.default_rng(2).integers(0, 3, y.size).astype(float) if weighted else None
    settings: dict[str, Any] = OF_LEVELS | {"n_estimators": 8, "learning_rate": 0.5}
    cls: Any = GradientBoostingRegressor
    if loss == "classes":
        cls, y, y_test = (
            GradientBoostingClassifier,
            np.digitize(y, [-0.5, 0.5]),
            np.digitize(y_test, [-0.5, 0.5]),
        )
    else:
        settings |= {"subsample": 0.7} if loss == "subsample" else {"loss": loss}
    models = [cls(**settings, n_jobs=n).fit(X, y, weight) for n in (1, 3)]
    with using(Implementation.REFERENCE):
        models.append(cls(**settings).fit(X, y, weight))
    assert len({model.forest_.fingerprint() for model in models}) == 1
    assert models[0].score(X_test, y_test) > 0.75
    if weighted:  # rows of weight zero as if they were not there
        used = weight > 0
        apart = cls(**settings | {"subsample": 1.0}).fit(X[used], y[used], weight[used])
        whole = clone(apart).fit(X, y, weight)
        np.testing.assert_array_equal(apart._category_smoothing, whole._category_smoothing)


def test_a_warm_start_goes_on_with_the_same_smoothing(tmp_path):
    X, y, _, _ = levels([8] * 60, 1.0)
    model = GradientBoostingRegressor(**OF_LEVELS | {"n_estimators": 6}).fit(X, y)
    half = GradientBoostingRegressor(**OF_LEVELS | {"n_estimators": 3}, warm_start=True).fit(X, y)
    save(half, tmp_path / "half")
    whole = load(tmp_path / "half").set_params(n_estimators=6).fit(X, y)
    assert whole.forest_.fingerprint() == model.forest_.fingerprint()
    again = whole.set_params(warm_start=False).fit(X[:, [1, 0, 2]], y)
    assert not hasattr(again, "_category_smoothing")


def test_the_rows_that_make_a_mean_credible():
    """Of many groups it is the variance within over that between, or slightly more."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4000), 5)
    noise = rng.normal(size=groups.size)
    values = np.stack([0.5 * rng.normal(size=4000)[groups] + noise, noise])
    assert 4.0 < credible_rows(groups, values[:1]) < 4.7
    assert credible_rows(groups, values[1:]) == np.inf
    assert credible_rows(groups, np.stack([values[0], 1e9 * values[0]])) == pytest.approx(
        credible_rows(groups, values[:1])
    )
    assert credible_rows(np.arange(9), noise[None, :9]) == np.inf  # nothing within
    assert credible_rows(groups[:20], groups[None, :20].astype(float)) == 0.0


def test_large_tables_and_bundles_are_the_same_on_any_number_of_threads():
    X, y = table(30_000)
    models = [
        GradientBoostingRegressor(n_estimators=3, categorical_features=[0, 1], n_jobs=n).fit(X, y)
        for n in (1, 2)
    ]
    full = np.nan_to_num(X)  # features without missing values share bytes
    models += [
        GradientBoostingRegressor(n_estimators=3, categorical_features=[0, 1], n_jobs=n).fit(
            full, y
        )
        for n in (1, 2)
    ]
    prints = [model.forest_.fingerprint() for model in models]
    assert prints[0] == prints[1] and prints[2] == prints[3]
    with using(Implementation.REFERENCE):
        model = clone(models[2]).set_params(n_jobs=1).fit(full, y)
    assert model.forest_.fingerprint() == prints[2]


def test_frames_names_and_dtypes():
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    letters = frame["a"].map(lambda c: np.nan if np.isnan(c) else chr(97 + int(c)))
    frame["a"] = pd.Categorical(letters)
    frame["b"] = pd.Categorical(frame["b"])
    by_dtype = GradientBoostingRegressor(**SMALL).fit(frame, y)
    by_name = GradientBoostingRegressor(**SMALL, categorical_features=["a", "b"]).fit(frame, y)
    by_mask = GradientBoostingRegressor(**SMALL, categorical_features=[True, True, False])
    by_mask.fit(X, y)
    assert by_dtype.is_categorical_.tolist() == [True, True, False]
    prints = {model.forest_.fingerprint() for model in (by_dtype, by_name, by_mask)}
    assert len(prints) == 1
    np.testing.assert_array_equal(by_dtype.predict(frame), by_mask.predict(X))
    plain = GradientBoostingRegressor(**SMALL, categorical_features=None).fit(X, y)
    assert plain.is_categorical_ is None
    assert not (plain.forest_.category_begin >= 0).any()


def test_a_categorical_column_that_is_not_named():
    frame = pd.DataFrame({"a": np.arange(20.0), "city": pd.Categorical(["x", "y"] * 10)})
    for settings in ({"categorical_features": None}, {"categorical_features": ["a"]}):
        with pytest.raises(ValueError, match="column 'city' has dtype category"):
            GradientBoostingRegressor(**SMALL, **settings).fit(frame, np.arange(20.0))


def test_regularisation_of_categories():
    """Enough of it, and they are not split any more; few categories do not mind."""
    X, y = table()
    settings = SMALL | {"categorical_features": [0, 1]}
    model = GradientBoostingRegressor(**settings, cat_l2=1e6).fit(X, y)
    by_category = model.forest_.category_begin >= 0
    assert set(model.forest_.feature[by_category]) == {1}
    assert 0 in GradientBoostingRegressor(**settings).fit(X, y).forest_.feature


def test_saved_models(tmp_path):
    X, y = table()
    settings = SMALL | {"categorical_features": [0, 1]}
    model = GradientBoostingRegressor(**settings, warm_start=True).fit(X, y)
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    more = [m.set_params(n_estimators=9).fit(X, y) for m in (model, loaded)]
    assert more[0].forest_.fingerprint() == more[1].forest_.fingerprint()


def test_pickles_warm_starts_and_checkpoints():
    X, y = table()
    settings = SMALL | {"categorical_features": [0, 1]}
    whole = GradientBoostingRegressor(**settings).fit(X, y)
    parts = GradientBoostingRegressor(**settings | {"n_estimators": 3}, warm_start=True).fit(X, y)
    parts = pickle.loads(pickle.dumps(parts)).set_params(n_estimators=6).fit(X, y)
    assert parts.forest_.fingerprint() == whole.forest_.fingerprint()
    staged = list(whole.staged_predict(X))
    np.testing.assert_array_equal(staged[-1], whole.predict(X))


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_beside_scikit_learn(n_classes):
    X, y = table(4000, 30)
    X_test, y_test = table(4000, 30, seed=9)
    bounds = np.quantile(y, np.linspace(0, 1, n_classes + 1)[1:-1])
    y, y_test = np.digitize(y, bounds), np.digitize(y_test, bounds)
    ours = GradientBoostingClassifier(
        min_samples_leaf=20, l2_regularization=0.0, categorical_features=[0, 1]
    ).fit(X, y)
    theirs = HistGradientBoostingClassifier(categorical_features=[0, 1], early_stopping=False)
    theirs.fit(X, y)
    losses = [log_loss(y_test, model.predict_proba(X_test)) for model in (ours, theirs)]
    assert losses[0] <= 1.03 * losses[1]
    as_numbers = clone(ours).set_params(categorical_features=None).fit(X, y)
    assert losses[0] < log_loss(y_test, as_numbers.predict_proba(X_test))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["adult", "airlines_allyears2k"])
def test_real_categories_beside_lightgbm(name):
    """At LightGBM's settings, but its further regularisations of categories."""
    path = DATA / f"{name}.npz"
    if not path.is_file():
        pytest.skip(f"{path.name} is not in ../shared/data")
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is the peer")
    with np.load(path, allow_pickle=False) as file:
        X, y, categorical = file["X"], file["y"], np.flatnonzero(file["is_categorical"]).tolist()
    train = np.arange(len(y)) % 4 > 0
    ours = GradientBoostingClassifier(
        min_samples_leaf=20, l2_regularization=0.0, categorical_features=categorical
    ).fit(X[train], y[train])
    theirs = lightgbm.LGBMClassifier(
        cat_l2=0.0, cat_smooth=10.0, min_data_per_group=1, max_cat_threshold=255, n_jobs=2,
        verbose=-1,
    ).fit(X[train], y[train], categorical_feature=categorical)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        losses = [log_loss(y[~train], m.predict_proba(X[~train])) for m in (ours, theirs)]
    assert losses[0] <= 1.01 * losses[1]


def test_a_category_without_rows_or_weight():
    """All values missing, one category only, a category whose rows weigh nothing."""
    X, y = table(200)
    X[:, 0] = np.nan
    X[:, 1] = np.where(np.isnan(X[:, 1]), np.nan, 4.0)
    model = GradientBoostingRegressor(**SMALL, categorical_features=[0, 1]).fit(X, y)
    assert np.isfinite(model.predict(X)).all()
    X, y = table(200)
    X[:9, 0] = 50
    weight = np.where(X[:, 0] == 50, 0.0, 1.0)
    model = GradientBoostingRegressor(**SMALL, categorical_features=[0, 1])
    predicted = model.fit(X, y, sample_weight=weight).predict(X[9:])
    rest = clone(model).fit(X[9:], y[9:]).predict(X[9:])
    np.testing.assert_allclose(predicted, rest, rtol=1e-6)


BAD: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"categorical_features": [0], "monotonic_cst": [1, 0, 0]},
        ["monotonic_cst constrains feature 0", "no order", "Set it to 0"],
    ),
    ({"categorical_features": [True, False]}, ["categorical_features is a mask of 2", "3"]),
    ({"categorical_features": [3]}, ["categorical_features must hold positions from 0 to 2", "3"]),
    ({"categorical_features": ["a"]}, ["categorical_features names ['a']", "not a data frame"]),
    ({"categorical_features": "all"}, ["categorical_features must be None", "'all'"]),
    ({"cat_smooth": -1.0}, ["cat_smooth must be 'auto' or a finite number >= 0", "-1.0"]),
    ({"cat_hash_groups": 0}, ["cat_hash_groups must be 'auto' or an integer >= 1", "0"]),
    ({"cat_hash_groups": 300}, ["cat_hash_groups must be at most max_bins=", "300"]),
    ({"max_cat_to_onehot": 0}, ["max_cat_to_onehot must be an integer >= 1", "0"]),
]


@pytest.mark.parametrize("settings, parts", BAD, ids=lambda value: str(value)[:40])
def test_bad_parameters(settings, parts):
    X, y = table(60)
    with pytest.raises((ValueError, TypeError)) as error:
        GradientBoostingRegressor(**SMALL | settings).fit(X, y)
    for part in parts:
        assert part in str(error.value)
