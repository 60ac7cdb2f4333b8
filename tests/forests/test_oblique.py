"""Oblique random forests: splits by sums of a few features."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.utils import estimator_html_repr

import gpuens
from gpuens import (
    BinnedTable,
    ObliqueRandomForestClassifier,
    ObliqueRandomForestRegressor,
    RandomForestClassifier,
)
from gpuens.datasets import make_sparse_parity, make_trunk
from gpuens.devices.placement import CPU
from gpuens.forest.oblique import ObliqueForest, Projections
from gpuens.forests import oblique
from gpuens.forests.projections import draw_projections, scales_of
from gpuens.kernels.runtime.collective import Alone, Workers, sharing
from gpuens.saving.file import ModelFileError
from tests.support.lanes import few

X, Y = load_diabetes(return_X_y=True)
WINE, CLASSES = load_wine(return_X_y=True)
N_FEATURES = X.shape[1]


def classifier(**settings: Any) -> Any:
    few = {"n_estimators": 5, "feature_combinations": 3, "n_projections": 60, "device": "cpu"}
    return ObliqueRandomForestClassifier(**few | settings)


def regressor(**settings: Any) -> Any:
    few = {"n_estimators": 5, "feature_combinations": 3, "n_projections": 60, "device": "cpu"}
    return ObliqueRandomForestRegressor(**few | settings)


def sums(projections: Projections, table: np.ndarray) -> np.ndarray:
    """Projections, of the definition."""
    columns = []
    for first, last in zip(projections.begin[:-1], projections.begin[1:], strict=True):
        total = projections.weight[first] * table[:, projections.member[first]]
        for k in range(first + 1, last):
            total = total + projections.weight[k] * table[:, projections.member[k]]
        columns.append(total)
    return np.stack(columns, axis=1)


def leaf_of(tree: Any, row: np.ndarray) -> int:
    """Follow a row of projections down a tree of numbers."""
    node = 0
    while tree.feature[node] >= 0:
        x = row[tree.feature[node]]
        left = tree.missing_left[node] if np.isnan(x) else x <= tree.threshold[node]
        node = tree.left[node] if left else tree.right[node]
    return node


def test_rows_go_down_by_projections():
    table = X.copy()
    table[np.random.default_rng(0).random(X.shape) < 0.05] = np.nan
    forest = regressor(oob_score=True, n_estimators=30).fit(table, Y)
    projected = sums(forest.forest_.projections, table)
    leaves = forest.apply(table)
    total = np.zeros(len(Y))
    for t in range(30):
        tree = forest.forest_.slice(t, t + 1)
        expected = [leaf_of(tree, row) for row in projected]
        np.testing.assert_array_equal(leaves[:, t], expected)
        total += tree.value[expected, 0]
    np.testing.assert_allclose(forest.predict(table), total / 30, rtol=1e-12)
    assert (forest.forest_.projections.sizes > 1).any()
    assert 0.3 < forest.oob_score_ < 0.6
    paths, begin = forest.decision_path(table[:9])
    for i in range(9):
        ends = [begin[t] + leaves[i, t] for t in range(30)]
        assert set(ends) <= set(paths[i].indices)
    members = [tree.predict(table) for tree in forest.estimators_]
    np.testing.assert_allclose(np.mean(members, axis=0), forest.predict(table), rtol=1e-12)


@pytest.mark.parametrize("cells", [1, 700])
def test_blocks_do_not_change_a_forest(cells, monkeypatch):
    whole = classifier().fit(WINE, CLASSES)
    monkeypatch.setattr(oblique, "CELLS_AT_ONCE", cells)
    monkeypatch.setattr(gpuens.forest.oblique, "CELLS_AT_ONCE", cells)
    blocks = classifier().fit(WINE, CLASSES)
    assert whole.forest_.fingerprint() == blocks.forest_.fingerprint()
    np.testing.assert_array_equal(whole.predict_proba(WINE), blocks.predict_proba(WINE))
    np.testing.assert_array_equal(whole.apply(WINE), blocks.apply(WINE))


@pytest.mark.slow
def test_fewer_errors_than_a_plain_forest():
    """The two cases of Tomita et al.; the figures of many runs are in benchmarks."""
    for make, n, n_features, factor in ((make_sparse_parity, 2000, 12, 0.5),
                                        (make_trunk, 500, 50, 0.8)):  # fmt: skip
        table, y = make(n + 2000, n_features, random_state=1)
        test = slice(n, None)
        wrong = [
            1 - cls(50, device="cpu").fit(table[:n], y[:n]).score(table[test], y[test])
            for cls in (ObliqueRandomForestClassifier, RandomForestClassifier)
        ]
        assert wrong[0] < factor * wrong[1]


def test_one_feature_a_projection_is_a_plain_forest():
    forest = classifier(feature_combinations=1).fit(WINE, CLASSES)
    projections = forest.forest_.projections
    assert (projections.sizes == 1).all() and (projections.weight == 1).all()
    assert sorted(projections.member.tolist()) == list(range(13))


@pytest.fixture
def trials(monkeypatch):
    """Combinations, projections that a node looks at, trees and error of each trial."""
    done = []
    original = oblique.ObliqueTrees._try

    def keeping(self, n_trees, *others):
        original(self, n_trees, *others)
        done.append(
            (self.feature_combinations_, self.max_features_, n_trees, self._error_of(n_trees))
        )

    monkeypatch.setattr(oblique.ObliqueTrees, "_try", keeping)
    return done


def test_the_least_out_of_bag_error_wins(trials):
    forest = ObliqueRandomForestRegressor(20, device="cpu").fit(X, Y)
    errors = {combinations: error for combinations, *_, error in trials[:3]}
    assert forest.feature_combinations_ == min(errors, key=errors.__getitem__)
    assert sorted(errors) == [1.0, 3.0, 5.0] and len(set(errors.values())) == 3
    trial = ObliqueRandomForestRegressor(20, feature_combinations=3, oob_score=True, device="cpu")
    assert errors[3.0] == trial.fit(X, Y).oob_scores_path_[-1]


@pytest.mark.slow
def test_looking_at_more_must_be_worth_the_time(trials, monkeypatch):
    table, y = make_sparse_parity(600, 8, random_state=0)
    monkeypatch.setattr(oblique, "LOOKED_AT", 5)
    monkeypatch.setattr(oblique, "MORE_LOOKED_AT", 100)
    more = ObliqueRandomForestClassifier(60, device="cpu").fit(table, y)
    assert more.feature_combinations_ > 1 and more.max_features_ == 100
    (*_, few), (*_, many) = trials[-2:]
    assert [trial[1:3] for trial in trials[-2:]] == [(100, 15), (100, 50)]
    assert many < few < 0.5
    trials.clear()
    monkeypatch.setattr(oblique, "PROMISE", 0.1)
    less = ObliqueRandomForestClassifier(60, device="cpu").fit(table, y)
    assert less.feature_combinations_ == more.feature_combinations_ and less.max_features_ == 5
    assert trials[-1][1:3] == (100, 15)
    trials.clear()
    chosen = clone(less).set_params(max_features=7).fit(table, y)
    assert len(trials) == 3 and chosen.max_features_ == 7


@pytest.mark.parametrize("settings, rows", few([
    ({}, 5000), ({"bootstrap": False, "oob_score": False}, 100),
    ({"class_weight": "balanced_subsample"}, 5000), ({"honest": True, "max_samples": 0.7}, 100),
    ({"ccp_alpha": 0.01}, 5000), ({"n_estimators": 10, "oob_score": False}, 100),
], 0, 5))  # fmt: skip
def test_trees_of_trials_are_those_of_the_forest(settings, rows, monkeypatch):
    monkeypatch.setattr(oblique, "TRIAL_ROWS", rows)
    settings = {"n_estimators": 60, "oob_score": True, "device": "cpu"} | settings
    weight = np.random.default_rng(0).integers(0, 3, len(CLASSES))
    forest = ObliqueRandomForestClassifier(**settings).fit(WINE, CLASSES, weight)
    settings["feature_combinations"] = forest.feature_combinations_
    again = ObliqueRandomForestClassifier(**settings, max_features=forest.max_features_)
    again.fit(WINE, CLASSES, weight)
    assert forest.forest_.fingerprint() == again.forest_.fingerprint()
    if settings["oob_score"]:
        np.testing.assert_array_equal(forest.oob_scores_path_, again.oob_scores_path_)
        np.testing.assert_array_equal(forest.oob_decision_function_, again.oob_decision_function_)


def test_any_number_of_threads_and_a_warm_start_give_the_same_forest():
    whole = regressor(n_estimators=8, n_jobs=1).fit(X, Y)
    threads = regressor(n_estimators=8, n_jobs=2).fit(X, Y)
    started = regressor(n_estimators=3, warm_start=True, n_projections=60).fit(X, Y)
    started.set_params(n_estimators=8, n_projections=5).fit(X, Y)
    assert whole.forest_.fingerprint() == threads.forest_.fingerprint()
    assert whole.forest_.fingerprint() == started.forest_.fingerprint()
    assert regressor(n_estimators=8, random_state=1).fit(X, Y).forest_.fingerprint() != (
        whole.forest_.fingerprint()
    )


def test_the_scale_of_a_feature_does_not_matter():
    factors = 2.0 ** np.random.default_rng(0).integers(-40, 40, N_FEATURES)
    plain, scaled = regressor().fit(X, Y), regressor().fit(X * factors, Y)
    several = plain.forest_.projections.sizes[np.maximum(plain.forest_.feature, 0)] > 1
    np.testing.assert_array_equal(plain.forest_.feature, scaled.forest_.feature)
    np.testing.assert_array_equal(
        plain.forest_.threshold[several], scaled.forest_.threshold[several]
    )
    np.testing.assert_array_equal(plain.predict(X), scaled.predict(X * factors))


def test_scales():
    table = np.array([[0.0, 5.0, np.nan, 3.0, np.nan], [1000.0, 5.0, np.nan, 3.0, 1.0]])
    np.testing.assert_array_equal(scales_of(table), [2.0**-9, 1, 1, 1, 1])
    many = np.random.default_rng(0).normal(size=(50_000, 2)) * [1.0, 1e300]
    many[0] = 1e307
    spread = scales_of(many) * 1.28 * np.array([1.0, 1e300])  # half the spread, the inner 80 %
    assert ((spread >= 0.5) & (spread < 1.03)).all()


def test_projections_that_are_drawn():
    combines = np.arange(40) % 8 != 0
    scales = 2.0 ** -np.arange(40)
    drawn = draw_projections(scales, combines, 4000, 3.0, 7)
    sizes, alone = drawn.sizes, ~combines[drawn.member]
    assert 2.9 < sizes[combines[drawn.member[drawn.begin[:-1]]] | (sizes > 1)].mean() < 3.1
    assert (sizes[np.repeat(np.arange(4000), sizes)[alone]] == 1).all()
    single = np.repeat(sizes, sizes) == 1
    np.testing.assert_array_equal(abs(drawn.weight[~single]), scales[drawn.member[~single]])
    assert (drawn.weight[single] == 1).all()
    assert 0.45 < (drawn.weight[~single] < 0).mean() < 0.55
    counts = np.bincount(drawn.member[alone], minlength=40)[~combines]
    assert (counts == 100).all()
    together = np.bincount(drawn.member, minlength=40)[combines]
    assert together.max() < 1.25 * together.min()
    starts = np.isin(np.arange(1, drawn.member.size), drawn.begin)
    assert ((np.diff(drawn.member) > 0) | starts).all()
    assert (draw_projections(scales, combines, 50, 1e6, 7).sizes.max()) == combines.sum()


def test_categories_and_constraints_stay_alone():
    frame = pd.DataFrame(X[:, :5], columns=list("abcde"))
    frame["kind"] = pd.Categorical(np.where(Y > 140, "high", "low"))
    forest = regressor(monotonic_cst=[0, 0, 1, 0, 0, 0], n_estimators=10).fit(frame, Y)
    projections = forest.forest_.projections
    for feature in (2, 5):
        own = np.flatnonzero(projections.member == feature)
        of = np.searchsorted(projections.begin, own, side="right") - 1
        assert len(own) == 10 and (projections.sizes[of] == 1).all()
    assert forest.feature_importances_[5] > 0.3
    assert forest.forest_.categories_of_features.tolist() == [0, 0, 0, 0, 0, 2]
    rows = frame.iloc[np.repeat(np.arange(20), 30)].reset_index(drop=True)
    rows["c"] = np.tile(np.linspace(-0.1, 0.2, 30), 20)
    assert (np.diff(forest.predict(rows).reshape(20, 30), axis=1) >= 0).all()


def test_importances_are_of_the_features():
    table, y = make_sparse_parity(2000, 10, random_state=0)
    forest = classifier(n_estimators=20, n_projections=500, max_features=0.2, oob_score=True)
    forest.fit(table, y)
    importances = forest.feature_importances_
    assert importances.shape == (10,)
    np.testing.assert_allclose(importances.sum(), 1.0)
    assert set(np.argsort(importances)[-3:]) == {0, 1, 2}
    shuffled = forest.oob_permutation_importance(table, y).importances_mean
    assert set(np.argsort(shuffled)[-3:]) == {0, 1, 2}
    assert gpuens.inspection.feature_importances(forest).argmax() in (0, 1, 2)
    single = classifier(feature_combinations=1, n_estimators=3).fit(table, y)
    again = np.zeros(10)
    np.add.at(again, single.forest_.projections.member, gpuens.inspection.feature_importances(
        single, normalize=False)[single.forest_.projections.member])  # fmt: skip
    np.testing.assert_allclose(
        again, gpuens.inspection.feature_importances(single, normalize=False)
    )


def test_partial_dependence_is_brute():
    forest = regressor().fit(X, Y)
    grid = gpuens.inspection.partial_dependence(forest, X[:50], [2])
    rows = X[:50].copy()
    rows[:, 2] = grid.grid_values[0][3]
    np.testing.assert_allclose(grid.average[0, 3], forest.predict(rows).mean())
    with pytest.raises(ValueError, match="method='recursion' needs splits of single features"):
        gpuens.inspection.partial_dependence(forest, X, [2], method="recursion")


def test_sparse_tables_and_libraries():
    dense = np.where(np.random.default_rng(0).random(WINE.shape) < 0.5, WINE, 0.0)
    plain = classifier().fit(dense, CLASSES)
    sparse = classifier().fit(csr_matrix(dense), CLASSES)
    assert plain.forest_.fingerprint() == sparse.forest_.fingerprint()
    np.testing.assert_array_equal(
        sparse.predict_proba(csr_matrix(dense)), plain.predict_proba(dense)
    )
    tree = sparse.estimators_[0]
    np.testing.assert_array_equal(tree.predict(csr_matrix(dense)), tree.predict(dense))
    with pytest.raises(TypeError, match="BinnedTable, which has no values to add up"):
        classifier().fit(BinnedTable.from_batches(dense, y=CLASSES), CLASSES)


@pytest.mark.parametrize("settings", [
    {"honest": True}, {"class_weight": "balanced_subsample"}, {"max_bins": None},
    {"ccp_alpha": 0.01}, {"bootstrap": False}, {"max_samples": 0.5}, {"criterion": "entropy"},
])  # fmt: skip
def test_settings_of_forests(settings):
    weight = np.random.default_rng(0).random(len(CLASSES))
    forest = classifier(n_estimators=15, **settings).fit(WINE, CLASSES, weight)
    assert isinstance(forest.forest_, ObliqueForest)
    assert forest.score(WINE, CLASSES) > 0.95


def test_several_outputs():
    both = np.stack([Y, -Y], axis=1)
    forest = regressor(feature_combinations="auto").fit(X, both)
    np.testing.assert_allclose(forest.predict(X)[:, 0], -forest.predict(X)[:, 1])


def test_a_sample_chooses_for_large_tables(monkeypatch):
    monkeypatch.setattr(oblique, "TRIAL_ROWS", 100)
    seen = []
    original = ObliqueRandomForestRegressor._fit

    def counting(self, X, *others):
        seen.append(len(X))
        return original(self, X, *others)

    monkeypatch.setattr(ObliqueRandomForestRegressor, "_fit", counting)
    forest = regressor(feature_combinations="auto").fit(pd.DataFrame(X), list(Y), np.ones(len(Y)))
    assert seen == [len(Y), 100, 100, 100]  # of sixty projections a node looks at all
    assert forest.feature_combinations_ in (1.0, 3.0, 5.0)


def test_ctrl_c_in_a_trial_ends_the_fit(monkeypatch):
    def interrupted(self, forest):
        raise KeyboardInterrupt

    monkeypatch.setattr(ObliqueRandomForestRegressor, "_of_features", interrupted)
    forest = regressor(feature_combinations="auto")
    with pytest.raises(KeyboardInterrupt):
        forest.fit(X, Y)
    assert not hasattr(forest, "forest_")


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(n):
    forest = ObliqueRandomForestRegressor(5, device="cpu").fit(X[:n], Y[:n])
    assert Y[:n].min() <= forest.predict(X).min() <= forest.predict(X).max() <= Y[:n].max()


def test_one_feature():
    forest = ObliqueRandomForestRegressor(5, device="cpu").fit(X[:, :1], Y)
    assert forest.forest_.n_features == 1
    assert clone(forest).set_params(feature_combinations=4).fit(X[:, :1], Y).n_features_in_ == 1


def test_saved_and_loaded(tmp_path):
    for model in (
        classifier(oob_score=True, n_estimators=30).fit(WINE, CLASSES),
        regressor().fit(X, Y).estimators_[0],
    ):
        model.save(tmp_path / "model.gpuens")
        loaded = gpuens.load(tmp_path / "model.gpuens")
        assert loaded.forest_.fingerprint() == model.forest_.fingerprint()
        table = WINE if hasattr(model, "classes_") else X
        np.testing.assert_array_equal(loaded.predict(table), model.predict(table))


@pytest.mark.parametrize("field, change, message", [
    ("begin", lambda a: a[:-1], "begin does not cover its entries"),
    ("begin", lambda a: a * 0, "begin does not ascend"),
    ("begin", lambda a: a + 1, "begin does not begin with 0"),
    ("member", lambda a: a + 100, "member has columns beyond X"),
    ("member", lambda a: a - 100, "member has columns beyond X"),
    ("member", lambda a: a * 0, "member does not ascend"),
    ("weight", lambda a: a * 1.5, "weight is not a power of two"),
    ("weight", lambda a: a * np.nan, "weight is not a power of two"),
    ("feature", lambda a: a + 1000, "feature has columns beyond X"),
    ("n_categories", lambda a: a[:-1], "n_categories has 59 entries"),
    ("n_categories", lambda a: a + 1, "a sum of features has categories"),
])  # fmt: skip
def test_damaged_files_are_refused(field, change, message, tmp_path):
    model = classifier().fit(WINE, CLASSES)
    arrays = {field: change(getattr(model.forest_, field))}
    model.forest_ = dataclasses.replace(model.forest_, **arrays)
    model.save(tmp_path / "model.gpuens")
    with pytest.raises(ModelFileError, match=re.escape(message)):
        gpuens.load(tmp_path / "model.gpuens")


def test_what_needs_plain_trees_is_refused(tmp_path):
    forest = regressor().fit(X, Y)
    tasks = (
        lambda: forest.predict(X, pred_contribs=True),
        lambda: gpuens.TreeExplainer(forest),
        lambda: forest.to_lightgbm(tmp_path / "model.txt"),
        lambda: forest.to_c(tmp_path / "model.c"),
        lambda: gpuens.export_text(forest.estimators_[0]),
        lambda: forest.estimators_[0].tree_,
    )
    for task in tasks:
        with pytest.raises(ValueError, match="splits of single features.*RandomForest"):
            task()


@pytest.mark.parametrize("name, value, message", [
    ("feature_combinations", 0.5, "'auto' or a number >= 1"),
    ("feature_combinations", "many", "'auto' or a number >= 1"),
    ("feature_combinations", np.inf, "'auto' or a number >= 1"),
    ("n_projections", 0, "'auto' or an integer >= 1"),
    ("n_projections", 3.0, "'auto' or an integer >= 1"),
    ("max_features", 61, "more than the 60 projections"),
    ("max_features", "all", "max_features must be 'auto'"),
])  # fmt: skip
def test_bad_parameters(name, value, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        classifier(**{name: value}).fit(WINE, CLASSES)


def test_memory_plan_counts_the_projections():
    plan = gpuens.memory_plan(classifier(n_projections=500), (100_000, 20))
    other = gpuens.memory_plan(RandomForestClassifier(5, device="cpu"), (100_000, 20))
    assert plan.parts["table"] == other.parts["table"]
    assert plan.parts["bins"] > 20 * other.parts["bins"]


def test_workers_do_not_share_the_rows():
    with pytest.raises(ValueError, match="n_workers=2 is for.*got ObliqueRandomForestClassifier"):
        gpuens.memory_plan(classifier(), (1000, 20), n_workers=2)
    with sharing(Workers(Alone(), 0, len(Y), len(Y))):
        with pytest.raises(NotImplementedError, match="ObliqueRandomForestRegressor cannot be.*"
                           "use a random forest"):  # fmt: skip
            regressor().fit(X, Y)


def test_a_tree_by_itself():
    tree = regressor(max_depth=4).fit(X, Y).estimators_[0]
    ends = tree.forest_.feature < 0
    assert tree.get_depth() == 4 and tree.get_n_leaves() == ends.sum()
    assert "DecisionTreeRegressor" in estimator_html_repr(tree)
    assert not hasattr(tree, "tree_")


def test_forest_of_projections_by_itself():
    forest = regressor().fit(X, Y).forest_
    halves = ObliqueForest.concatenate([forest.slice(0, 2), forest.slice(2, 5)])
    assert halves.fingerprint() == forest.fingerprint()
    raw = forest.raw_predict(X, CPU)
    added = forest.tree_predict(X, CPU)
    np.testing.assert_allclose(added.sum(axis=1), raw[0], rtol=1e-12)
    assert forest.used_features.tolist() == list(range(N_FEATURES))
