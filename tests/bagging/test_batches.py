"""Members of a bag that are grown as one batch."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.ensemble import BaggingRegressor as SklearnBaggingRegressor
from sklearn.model_selection import train_test_split
from sklearn.tree import DecisionTreeClassifier

import gpuens
from gpuens import BaggingClassifier, BaggingRegressor
from tests.bagging.test_bagging import BOTH, XR, C, X, Y, both


class BatchTree(DecisionTreeClassifier):
    """A tree that fits the members of a bag itself."""

    batches: list[int] = []

    def _fit_batch(self, X, y, sample_weight, samples, features, seeds):
        self.batches.append(len(samples))
        assert sample_weight is None and len(samples) == len(features) == len(seeds)
        return [
            clone(self).set_params(random_state=seed).fit(X[:, columns], y, samples[i])
            for i, (columns, seed) in enumerate(zip(features, seeds, strict=True))
        ]


class TestBatches:
    @pytest.mark.parametrize("settings", [
        {}, {"bootstrap": False, "max_samples": 0.6}, {"max_features": 4},
        {"bootstrap_features": True}, {"oob_score": True},
    ])  # fmt: skip
    def test_a_batch_gives_the_members_that_single_fits_give(self, settings):
        settings = {"n_estimators": 25, **settings}
        single = BaggingClassifier(DecisionTreeClassifier(max_features=3), **settings).fit(X, C)
        BatchTree.batches.clear()
        batch = BaggingClassifier(BatchTree(max_features=3), **settings).fit(X, C)
        assert BatchTree.batches == [25]
        for a, b in zip(single, batch, strict=True):
            assert a.random_state == b.random_state
            np.testing.assert_array_equal(a.tree_.threshold, b.tree_.threshold)
        np.testing.assert_array_equal(single.predict_proba(X), batch.predict_proba(X))

    def test_weights_are_in_the_samples(self):
        weight = (C == 1) * 1.0 + 1e-3
        single = BaggingClassifier(DecisionTreeClassifier()).fit(X, C, sample_weight=weight)
        batch = BaggingClassifier(BatchTree()).fit(X, C, sample_weight=weight)
        np.testing.assert_array_equal(single.predict_proba(X), batch.predict_proba(X))

    def test_warm_start_grows_the_missing_ones(self):
        BatchTree.batches.clear()
        model = BaggingClassifier(BatchTree(), warm_start=True, n_estimators=3).fit(X, C)
        model.set_params(n_estimators=8).fit(X, C)
        assert BatchTree.batches == [3, 5]
        whole = BaggingClassifier(DecisionTreeClassifier(), n_estimators=8).fit(X, C)
        np.testing.assert_array_equal(model.predict_proba(X), whole.predict_proba(X))

    def test_sparse_tables_are_fitted_one_by_one(self):
        BatchTree.batches.clear()
        model = BaggingClassifier(BatchTree()).fit(scipy.sparse.csr_array(X), C)
        assert BatchTree.batches == [] and model.score(scipy.sparse.csr_array(X), C) > 0.9


class TestOwnTrees:
    """Trees of this package: grown as one batch, asked as one forest."""

    def test_they_are_the_default(self):
        for cls, features, target in BOTH:
            model = cls(device="cpu", n_jobs=2).fit(features, target)
            assert type(model.estimator_) in (
                gpuens.DecisionTreeClassifier,
                gpuens.DecisionTreeRegressor,
            )
            assert (model.estimator_.device, model.estimator_.n_jobs) == ("cpu", 2)
            assert not hasattr(model, "decision_function")

    @pytest.mark.parametrize("settings", [
        {}, {"max_samples": 0.5}, {"bootstrap": False, "max_samples": 0.7}, {"max_features": 0.5},
        {"max_features": 3, "bootstrap_features": True},
    ])  # fmt: skip
    @both
    def test_they_are_grown_on_their_rows_and_features(self, cls, X, y, settings):
        model = cls(n_estimators=6, **settings).fit(X, y)
        for tree, rows, features in zip(
            model, model.estimators_samples_, model.estimators_features_, strict=True
        ):
            # A full tree knows its rows, where their features tell them apart.
            if len(np.unique(X[:, features], axis=0)) == len(X):
                np.testing.assert_allclose(tree.predict(X[rows][:, features]), y[rows])
            counts = np.bincount(rows, minlength=len(X))
            assert tree.tree_.n_node_samples[0] == np.count_nonzero(counts)
            assert tree.tree_.weighted_n_node_samples[0] == len(rows)
        assert len({tree.forest_.fingerprint() for tree in model}) == 6

    @pytest.mark.parametrize("settings", [{}, {"max_features": 0.5}])
    @both
    def test_together_they_predict_what_they_predict_alone(self, cls, X, y, settings):
        model = cls(n_estimators=7, **settings).fit(X, y)
        method = "predict" if cls is BaggingRegressor else "predict_proba"
        pairs = zip(model, model.estimators_features_, strict=True)
        answers = [getattr(tree, method)(X[:, features]) for tree, features in pairs]
        np.testing.assert_array_equal(getattr(model, method)(X), sum(answers) / 7)

    def test_categories(self):
        codes = np.random.default_rng(0).integers(0, 8, len(X))
        table = np.column_stack([codes, X[:, :2]])
        y = np.isin(codes, [1, 4, 6])
        base = gpuens.DecisionTreeClassifier(categorical_features=[0])
        model = BaggingClassifier(base).fit(table, y)
        assert {int(tree.forest_.n_categories[0]) for tree in model} == {8}
        assert model.score(table, y) == 1
        answers = [tree.predict_proba(table) for tree in model]
        np.testing.assert_array_equal(model.predict_proba(table), sum(answers) / 10)

    def test_votes(self):
        model = BaggingClassifier(gpuens.DecisionTreeClassifier(max_depth=2), voting="hard").fit(
            X, C
        )
        votes = [tree.predict(X)[:, None] == np.arange(3) for tree in model]
        np.testing.assert_array_equal(model.predict_proba(X), sum(votes, np.zeros(3)) / 10)
        soft = BaggingClassifier(gpuens.DecisionTreeClassifier(max_depth=2)).fit(X, C)
        assert not np.array_equal(soft.predict_proba(X), model.predict_proba(X))

    def test_members_can_be_taken_out(self):
        model = BaggingRegressor(n_estimators=9).fit(XR, Y)
        before = model.predict(XR)
        del model.estimators_[3:], model.estimators_features_[3:]
        expected = np.mean([tree.predict(XR) for tree in model], axis=0)
        np.testing.assert_allclose(model.predict(XR), expected)
        assert not np.array_equal(model.predict(XR), before)

    def test_rows_that_are_drawn_very_often(self):
        weight = np.full(len(X), 1e-6)
        weight[::40] = 1.0
        model = BaggingClassifier(n_estimators=5).fit(X, C, sample_weight=weight)
        counts = [np.bincount(rows, minlength=len(X)) for rows in model.estimators_samples_]
        assert min(count.max() for count in counts) > 31
        for tree, count in zip(model, counts, strict=True):
            rows = np.flatnonzero(count)
            assert tree.tree_.n_node_samples[0] == rows.size
            np.testing.assert_array_equal(tree.predict(X[rows]), C[rows])

    def test_a_subclass_with_a_fit_of_its_own(self):
        class Recording(gpuens.DecisionTreeRegressor):
            def fit(self, X, y):
                self.rows_ = y
                return super().fit(X, y)

        model = BaggingRegressor(Recording(), n_estimators=2).fit(XR, np.arange(len(XR)))
        for tree, rows in zip(model, model.estimators_samples_, strict=True):
            np.testing.assert_array_equal(tree.rows_, rows)

    def test_out_of_bag_error_is_that_of_new_rows(self):
        X, y = make_friedman1(2000, random_state=0)
        X, Xt, y, yt = train_test_split(X, y, random_state=0)
        model = BaggingRegressor(n_estimators=60, oob_score=True).fit(X, y)
        assert abs(model.oob_score_ - model.score(Xt, yt)) < 0.03
        theirs = SklearnBaggingRegressor(n_estimators=60, random_state=0).fit(X, y)
        assert abs(model.score(Xt, yt) - theirs.score(Xt, yt)) < 0.02
