"""Random forests and extremely randomised trees."""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn import ensemble
from sklearn.base import is_classifier
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.model_selection import train_test_split

from gpuens import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from gpuens.forests import estimator as forest_estimator

DATA = Path(__file__).parents[3] / "shared" / "data"
NAN = float("nan")
CLASSIFIERS = (RandomForestClassifier, ExtraTreesClassifier)
REGRESSORS = (RandomForestRegressor, ExtraTreesRegressor)
ALL = CLASSIFIERS + REGRESSORS
forests = pytest.mark.parametrize("cls", ALL)
bagged = pytest.mark.parametrize("cls", [RandomForestClassifier, RandomForestRegressor])


@functools.cache
def data_for(cls: type) -> tuple[np.ndarray, np.ndarray]:
    return (load_wine if is_classifier(cls()) else load_diabetes)(return_X_y=True)


def real_data(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of a real table, if it is there."""
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA}")
    with np.load(path) as arrays:
        rows = np.random.default_rng(0).permutation(len(arrays["y"]))[:n]
        return arrays["X"][rows], arrays["y"][rows]


def several_outputs(cls: type) -> tuple[np.ndarray, np.ndarray]:
    X, y = data_for(cls)
    second = (X[:, 0] > np.median(X[:, 0])).astype(y.dtype)
    return X, np.stack([y, second if is_classifier(cls()) else 3 * y + second], axis=1)


def fingerprint(model: Any) -> str:
    return model.forest_.fingerprint()


class TestAccuracy:
    @pytest.mark.parametrize("name, n", [
        ("sonar", 208), ("vehicle", 500), ("vowel", 500), ("spambase", 800),
    ])  # fmt: skip
    @pytest.mark.parametrize("cls", CLASSIFIERS)
    def test_classification(self, cls, name, n):
        self.compare(cls, *real_data(name, n))

    @pytest.mark.parametrize("name", ["california_housing", "bike"])
    @pytest.mark.parametrize("cls", REGRESSORS)
    def test_regression(self, cls, name):
        X, y = real_data(name, 600)
        self.compare(cls, X, y)

    @staticmethod
    def compare(cls: type, X: np.ndarray, y: np.ndarray) -> None:
        """Paired with scikit-learn's forest over several partitions of the rows."""
        scores = np.empty((8, 2))
        for seed in range(8):
            Xa, Xb, ya, yb = train_test_split(X, y, random_state=seed, test_size=0.4)
            settings = {"n_estimators": 25, "random_state": seed}
            ours = cls(**settings).fit(Xa, ya)
            theirs = getattr(ensemble, cls.__name__)(**settings).fit(Xa, ya)
            scores[seed] = ours.score(Xb, yb), theirs.score(Xb, yb)
        difference = scores[:, 0] - scores[:, 1]
        assert difference.mean() > -3 * difference.std(ddof=1) / math.sqrt(8) - 0.002
        assert scores[:, 0].mean() > 0.6

    def test_missing_values(self):
        X, y = load_breast_cancer(return_X_y=True)
        X[np.random.default_rng(0).random(X.shape) < 0.3] = NAN
        for cls in CLASSIFIERS:
            assert cls(30).fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9


class TestVote:
    @pytest.mark.parametrize("outputs", [1, 2])
    @forests
    def test_the_forest_is_the_mean_of_its_trees(self, cls, outputs):
        X, y = data_for(cls) if outputs == 1 else several_outputs(cls)
        model = cls(7, max_depth=4, max_bins=40).fit(X, y)
        trees = model.estimators_
        assert len(model) == len(trees) == 7 and list(model) == trees and model[-1] is trees[6]
        method = "predict_proba" if is_classifier(model) else "predict"
        for found, *parts in zip(
            self.listed(model, method, X, outputs),
            *(self.listed(tree, method, X, outputs) for tree in trees),
            strict=True,
        ):
            np.testing.assert_allclose(found, np.mean(parts, axis=0), 1e-14, 1e-14)
        leaves = np.stack([tree.apply(X) for tree in trees], axis=1)
        np.testing.assert_array_equal(model.apply(X), leaves)

    @staticmethod
    def listed(model: Any, method: str, X: np.ndarray, outputs: int) -> list[np.ndarray]:
        found = getattr(model, method)(X)
        return found if isinstance(found, list) else [found]

    @pytest.mark.parametrize("cls", CLASSIFIERS)
    def test_the_class_of_the_highest_probability(self, cls):
        X, y = load_wine(return_X_y=True)
        names = np.array(["b", "a", "c"])
        model = cls(9, max_depth=2).fit(X, names[y])
        proba = model.predict_proba(X)
        np.testing.assert_allclose(proba.sum(axis=1), 1)
        np.testing.assert_array_equal(model.predict(X), model.classes_[proba.argmax(axis=1)])
        np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), proba)
        for tree in model.estimators_:
            assert tree.classes_.tolist() == [0.0, 1.0, 2.0] and set(tree.predict(X)) <= {0, 1, 2}

    @forests
    def test_paths_of_all_trees(self, cls):
        X, y = data_for(cls)
        model = cls(4, max_depth=3).fit(X, y)
        path, begin = model.decision_path(X)
        assert path.shape == (len(X), model.forest_.feature.size)
        assert begin.tolist() == model.forest_.offset.tolist()
        for t, tree in enumerate(model.estimators_):
            own = path[:, begin[t] : begin[t + 1]].toarray()
            np.testing.assert_array_equal(own, tree.decision_path(X).toarray())

    @forests
    def test_importances_are_the_mean_over_the_trees(self, cls):
        X, y = data_for(cls)
        model = cls(6, max_depth=4).fit(X, y)
        mean = np.mean([tree.feature_importances_ for tree in model.estimators_], axis=0)
        np.testing.assert_allclose(model.feature_importances_, mean / mean.sum())
        percent = model.feature_importances_percent_
        assert percent.max() == 100.0 and percent.min() >= 0
        np.testing.assert_allclose(percent / percent.sum(), model.feature_importances_)


class TestSamples:
    @bagged
    @pytest.mark.parametrize("max_samples", [None, 1, 20, 500, 0.3, 0.001, 1.0, 2.5], ids=repr)
    def test_sizes(self, cls, max_samples):
        X, y = data_for(cls)
        model = cls(5, max_samples=max_samples).fit(X, y)
        n = len(y)
        size = n if max_samples is None else max_samples
        size = max(1, round(size * n)) if isinstance(size, float) else size
        for rows, tree in zip(model.estimators_samples_, model.estimators_, strict=True):
            assert rows.shape == (size,) and (np.diff(rows) >= 0).all() and rows[-1] < n
            assert tree.tree_.n_node_samples[0] == np.unique(rows).size
            assert tree.tree_.weighted_n_node_samples[0] == size

    def test_the_share_of_the_rows_in_a_bag(self):
        n, trees = 2000, 60
        X, y = np.zeros((n, 1)), np.zeros(n)
        samples = RandomForestRegressor(trees).fit(X, y).estimators_samples_
        shares = [np.unique(rows).size / n for rows in samples]
        sd = math.sqrt((math.e - 2) / math.e**2 / n)
        assert abs(np.mean(shares) - (1 - 1 / math.e)) < 5 * sd / math.sqrt(trees)

    @pytest.mark.parametrize("cls", [ExtraTreesClassifier, ExtraTreesRegressor])
    def test_without_a_bootstrap_every_tree_has_all_rows(self, cls):
        X, y = data_for(cls)
        model = cls(3).fit(X, y)
        for rows in model.estimators_samples_:
            assert rows.tolist() == list(range(len(y)))
        assert len({tree.forest_.fingerprint() for tree in model.estimators_}) == 3
        np.testing.assert_allclose(model.predict(X), y, 1e-9)

    @bagged
    def test_a_tree_can_be_grown_again_by_hand(self, cls):
        X, y = data_for(cls)
        model = cls(3, max_features=1.0, min_samples_leaf=8, max_bins=None).fit(X, y)
        for tree, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
            count = np.bincount(rows, minlength=len(y))
            again = type(tree)(min_samples_leaf=8).fit(X, y, count)
            np.testing.assert_allclose(again.tree_.impurity[0], tree.tree_.impurity[0])
            np.testing.assert_allclose(again.tree_.gain[0], tree.tree_.gain[0])

    @bagged
    def test_rows_of_weight_zero_are_drawn_but_not_learned(self, cls):
        X, y = data_for(cls)
        weight = np.arange(len(y)) % 3 > 0
        model = cls(5).fit(X, y, weight)
        for tree, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
            assert tree.tree_.n_node_samples[0] == np.unique(rows[weight[rows]]).size
        wrong = np.where(weight, y, 0 if is_classifier(cls()) else 1e100)
        assert fingerprint(cls(5).fit(X, wrong, weight)) == fingerprint(model)

    def test_a_sample_without_any_row_of_positive_weight(self):
        X, y = np.arange(50.0)[:, None], np.arange(50.0)
        model = RandomForestRegressor(20).fit(X, y, np.arange(50) == 7)
        np.testing.assert_allclose(model.predict(X), 7.0)


class TestThreadsAndBatches:
    @pytest.mark.parametrize("settings", [{}, {"max_leaf_nodes": 6}], ids=str)
    @forests
    def test_threads_do_not_matter(self, cls, settings):
        X, y = data_for(cls)
        X, y = np.tile(X, (5, 1)), np.tile(y, 5)
        models = [cls(6, n_jobs=n_jobs, **settings).fit(X, y) for n_jobs in (1, 2, 3, -1)]
        assert len({fingerprint(model) for model in models}) == 1
        for model in models[1:]:
            np.testing.assert_array_equal(model.predict(X), models[0].predict(X))

    @forests
    def test_the_size_of_batches_does_not_matter(self, cls, monkeypatch):
        X, y = data_for(cls)
        settings = {"n_estimators": 12, "bootstrap": True, "oob_score": True, "max_samples": 0.3}
        whole = cls(**settings).fit(X, y)
        monkeypatch.setattr("gpuens.trees.growth.BATCH_BYTES", 1)
        model = cls(**settings, n_jobs=1).fit(X, y)
        assert fingerprint(model) == fingerprint(whole)
        np.testing.assert_array_equal(model.oob_scores_path_, whole.oob_scores_path_)

    @forests
    def test_different_seeds_grow_different_trees(self, cls):
        X, y = data_for(cls)
        found = {fingerprint(cls(3, random_state=seed).fit(X, y)) for seed in (None, 0, 1, 2)}
        assert len(found) == 3  # no seed is a fixed one


class TestClassWeight:
    @staticmethod
    def rare(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(n, 3))
        return X, (X[:, 0] + rng.normal(size=n) > 2.2).astype(int)

    @pytest.mark.parametrize("class_weight", ["balanced", "balanced_subsample", {0: 1, 1: 9}])
    def test_rare_classes_get_their_share(self, class_weight):
        X, y = self.rare()
        settings = {"n_estimators": 30, "max_depth": 4}
        plain = RandomForestClassifier(**settings).fit(X, y)
        model = RandomForestClassifier(**settings, class_weight=class_weight).fit(X, y)
        recall = [m.predict(X)[y == 1].mean() for m in (plain, model)]
        assert recall[1] > recall[0] + 0.2

    @pytest.mark.parametrize("weighted", [False, True])
    def test_balanced_in_the_sample_of_each_tree(self, weighted):
        X, y = self.rare()
        weight = np.arange(len(y)) % 4 if weighted else np.ones(len(y))
        model = RandomForestClassifier(6, class_weight="balanced_subsample")
        model.fit(X, y, weight if weighted else None)
        for tree, rows in zip(model.estimators_, model.estimators_samples_, strict=True):
            count = np.bincount(y[rows])
            factor = rows.size / 2 / count[y[rows]] * weight[rows]
            share = np.bincount(y[rows], factor) / factor.sum()
            np.testing.assert_allclose(tree.tree_.value[0, 0], share, 1e-6)
            np.testing.assert_allclose(tree.tree_.weighted_n_node_samples[0], factor.sum(), 1e-6)

    def test_several_outputs(self):
        X, y = self.rare()
        y = np.stack([y, X[:, 1] > 0], axis=1).astype(int)
        for class_weight in ("balanced", "balanced_subsample", [{0: 1, 1: 5}, {0: 1, 1: 1}]):
            model = RandomForestClassifier(9, class_weight=class_weight).fit(X, y)
            assert (model.predict(X) == y).mean() > 0.9


class TestProximity:
    @forests
    def test_share_of_common_leaves(self, cls):
        X, y = data_for(cls)
        model = cls(8, min_samples_leaf=5).fit(X, y)
        proximity = model.proximity(X)
        assert proximity.shape == (len(X), len(X)) and proximity.dtype == np.float64
        np.testing.assert_array_equal(proximity, proximity.T)
        np.testing.assert_array_equal(np.diag(proximity), 1.0)
        leaves = model.apply(X)
        np.testing.assert_array_equal(proximity[3, 7], (leaves[3] == leaves[7]).mean())
        np.testing.assert_array_equal(model.proximity(X[:9], X[4:20]), proximity[:9, 4:20])

    def test_rows_of_a_class_are_near_each_other(self):
        X, y = load_wine(return_X_y=True)
        proximity = RandomForestClassifier(50).fit(X, y).proximity(X)
        same = y[:, None] == y
        assert proximity[same].mean() > 5 * proximity[~same].mean()

    def test_too_many_rows(self, monkeypatch):
        X, y = load_wine(return_X_y=True)
        model = RandomForestClassifier(2).fit(X, y)
        monkeypatch.setattr(forest_estimator, "available_memory", lambda: 1000)
        with pytest.raises(MemoryError, match=r"178 and 178 rows take 248 KiB, 1e\+03 B are free"):
            model.proximity(X)


class TestPermutationImportance:
    @pytest.mark.parametrize("cls", [RandomForestClassifier, RandomForestRegressor])
    def test_it_finds_the_features_that_matter(self, cls):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(300, 6))
        y = 2 * X[:, 1] + X[:, 4]
        y = (y > 0).astype(int) if is_classifier(cls()) else y
        model = cls(30).fit(X, y)
        found = model.oob_permutation_importance(X, y)
        mean, noise = found.importances_mean, [0, 2, 3, 5]
        assert found.importances.shape == (6, 30)
        np.testing.assert_allclose(mean, found.importances.mean(axis=1))
        np.testing.assert_allclose(found.importances_std, found.importances.std(axis=1))
        assert mean[1] > 2 * mean[4] > 10 * np.abs(mean[noise]).max()
        again = model.oob_permutation_importance(X, y)
        np.testing.assert_array_equal(again.importances, found.importances)
        other = model.oob_permutation_importance(X, y, random_state=1, n_repeats=3)
        np.testing.assert_allclose(other.importances_mean, mean, atol=0.3 * mean[1])
        assert not np.array_equal(other.importances, found.importances)

    def test_labels_and_several_outputs(self):
        X, y = load_wine(return_X_y=True)
        model = RandomForestClassifier(10).fit(X, y)
        plain = model.oob_permutation_importance(X, y)
        names = np.array(["a", "b", "c"])[y]
        named = RandomForestClassifier(10).fit(X, names)
        found = named.oob_permutation_importance(X, names)
        np.testing.assert_array_equal(found.importances, plain.importances)
        twice = RandomForestClassifier(10).fit(X, np.stack([y, y], axis=1))
        found = twice.oob_permutation_importance(X, np.stack([y, y], axis=1))
        assert found.importances_mean.argmax() == plain.importances_mean.argmax()

    def test_weights(self):
        """Rows of weight zero say nothing about a feature that only they need."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 2))
        group = X[:, 0] > 0
        y = np.where(group, X[:, 1] > 0, False).astype(int)
        model = RandomForestClassifier(20).fit(X, y)
        weight = np.where(group, 0.0, 1.0)
        plain = model.oob_permutation_importance(X, y).importances_mean[1]
        found = model.oob_permutation_importance(X, y, sample_weight=weight).importances_mean[1]
        assert found < 0.2 * plain


class TestPruning:
    @forests
    def test_cost_complexity(self, cls):
        X, y = data_for(cls)
        alpha = 0.02 if cls in CLASSIFIERS else 50.0
        whole, model = cls(5).fit(X, y), cls(5, ccp_alpha=alpha).fit(X, y)
        assert (model.forest_.n_leaves < whole.forest_.n_leaves).all()
        for tree, rows, other in zip(
            model.estimators_, model.estimators_samples_, whole.estimators_, strict=True
        ):
            decrease = tree.tree_.gain[tree.tree_.feature >= 0] / rows.size
            assert decrease.sum() / max(decrease.size, 1) > alpha or tree.get_n_leaves() == 1
            assert set(tree.tree_.threshold) <= set(other.tree_.threshold)

    def test_reduced_error(self):
        X, y = load_breast_cancer(return_X_y=True)
        Xa, Xb, ya, yb = train_test_split(X, y, random_state=1)
        tree = RandomForestClassifier(1).fit(Xa, ya)[0]
        before, leaves = (tree.predict(Xb) == yb).mean(), tree.get_n_leaves()
        assert tree.prune(Xb, yb) is tree
        assert tree.get_n_leaves() < leaves and (tree.predict(Xb) == yb).mean() >= before
