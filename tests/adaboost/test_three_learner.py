"""Schapire's three learners."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.tree import DecisionTreeClassifier

from gpuens import ThreeLearnerBoostingClassifier
from gpuens.datasets import make_higgs_like
from tests.support.errors import raises
from tests.support.user_estimators import NearestMean

X, Y = load_breast_cancer(return_X_y=True)
BIG, BIG_Y = make_higgs_like(6000, 5, random_state=0)


class Thresholds(ClassifierMixin, BaseEstimator):
    """Learner k says whether feature 0 is above the k-th threshold, whatever it is trained on."""

    thresholds: list[float] = []
    made: list[int] = [0]

    def fit(self, X, y):
        self.threshold_ = self.thresholds[self.made[0]]
        self.made[0] += 1
        return self

    def predict(self, X):
        return (X[:, 0] > self.threshold_).astype(int)


def thresholds(*values: float) -> Thresholds:
    Thresholds.thresholds, Thresholds.made = list(values), [0]
    return Thresholds()


LINE = np.arange(300.0)[:, None] / 300
LINE_Y = (LINE[:, 0] > 0.5).astype(int)


class TestSets:
    @pytest.mark.parametrize("max_samples, size", [(1 / 3, 2000), (0.25, 1500), (600, 600)])
    @pytest.mark.parametrize("base", [None, LogisticRegression(), NearestMean()])
    def test_what_the_learners_see(self, base, max_samples, size):
        settings = {"max_samples": max_samples, "random_state": 4}
        model = ThreeLearnerBoostingClassifier(base, **settings).fit(BIG, BIG_Y)
        first, second, third = model.estimators_samples_
        for rows in (first, second, third):
            assert rows.dtype == np.int64 and (np.diff(rows) > 0).all()
        assert first.size == size
        assert np.unique(np.concatenate([first, second, third])).size == (
            first.size + second.size + third.size
        )
        one, two, three = model.estimators_
        assert np.mean(one.predict(BIG[second]) != BIG_Y[second]) == 0.5
        assert (one.predict(BIG[third]) != two.predict(BIG[third])).all()
        for member, rows in zip((one, two, three), (first, second, third), strict=True):
            again = clone(member).fit(BIG[rows], BIG_Y[rows])
            np.testing.assert_array_equal(again.predict(BIG), member.predict(BIG))

    def test_all_further_rows_are_used(self):
        """Half of them for the second learner: all that the first gets wrong; of the other half
        all about which the two disagree."""
        base = thresholds(0.6, 0.4, 0.5)
        model = ThreeLearnerBoostingClassifier(base, max_samples=100).fit(LINE, LINE_Y)
        first, second, third = model.estimators_samples_
        others = np.setdiff1d(np.arange(300), first)
        between = others[(LINE[others, 0] > 0.4) & (LINE[others, 0] <= 0.6)]
        wrong = others[(LINE[others, 0] > 0.5) & (LINE[others, 0] <= 0.6)]
        in_second = np.intersect1d(wrong, second)
        assert second.size == 2 * in_second.size
        np.testing.assert_array_equal(np.setdiff1d(between, third).size, between.size - third.size)
        # A wrong row is in the second half exactly if it is not in the first.
        np.testing.assert_array_equal(np.union1d(in_second, np.intersect1d(wrong, third)), wrong)

    def test_a_majority_decides(self):
        base = thresholds(0.6, 0.4, 0.5)
        model = ThreeLearnerBoostingClassifier(base).fit(LINE, LINE_Y)
        np.testing.assert_array_equal(model.predict(LINE), LINE_Y)  # the one in the middle
        votes = sum(member.predict(LINE) for member in model)
        np.testing.assert_array_equal(model.predict(LINE), votes >= 2)
        np.testing.assert_allclose(model.decision_function(LINE), (2 * votes - 3) / 3)
        assert model.score(LINE, LINE_Y) == 1

    def test_seeds(self):
        one, same, other = (
            ThreeLearnerBoostingClassifier(random_state=seed).fit(BIG, BIG_Y) for seed in (1, 1, 2)
        )
        for a, b, c in zip(*(m.estimators_samples_ for m in (one, same, other)), strict=True):
            np.testing.assert_array_equal(a, b)
            assert not np.array_equal(a, c)
        base = DecisionTreeClassifier(max_depth=2)
        model = ThreeLearnerBoostingClassifier(base).fit(BIG, BIG_Y)
        assert len({member.random_state for member in model}) == 3

    def test_it_boosts(self):
        """Three stumps are better than one on fresh rows, on the average over seeds."""
        rng = np.random.default_rng(0)
        table = rng.normal(size=(12_000, 4))
        y = table[:, :3].sum(axis=1) > 0
        train, test = slice(0, 6000), slice(6000, None)
        stump = DecisionTreeClassifier(max_depth=1).fit(table[train], y[train])
        three = [
            ThreeLearnerBoostingClassifier(random_state=seed)
            .fit(table[train], y[train])
            .score(table[test], y[test])
            for seed in range(5)
        ]
        assert np.mean(three) > stump.score(table[test], y[test]) + 0.03


ALONE = "the model is the first learner alone"


class TestEdges:
    def test_the_first_makes_no_error(self):
        with pytest.warns(UserWarning, match=f"makes no errors on 100 further rows: {ALONE}"):
            model = ThreeLearnerBoostingClassifier(thresholds(0.5)).fit(LINE, LINE_Y)
        assert len(model) == 1 and len(model.estimators_samples_) == 1
        np.testing.assert_array_equal(model.predict(LINE), LINE_Y)

    def test_the_first_makes_nothing_but_errors(self):
        with pytest.warns(UserWarning, match=f"makes nothing but errors on 100 .*: {ALONE}"):
            model = ThreeLearnerBoostingClassifier(thresholds(0.5)).fit(LINE, 1 - LINE_Y)
        assert len(model) == 1

    def test_rows_of_one_class_for_the_second(self):
        """The first is wrong about half of class 0; class 1 has two rows, which the second seldom
        gets to see."""
        y = np.isin(np.arange(300), [10, 290]).astype(int)
        said = set()
        for seed in range(8):
            model = ThreeLearnerBoostingClassifier(thresholds(0.5, 0.4, 0.3), random_state=seed)
            with pytest.warns(UserWarning, match=ALONE) as caught:
                model.fit(LINE, y)
            assert len(model) == 1
            said.add(re.sub(r"\d+", "N", str(caught[0].message)))
        assert f"The N rows for the second learner are of one class: {ALONE}." in said

    @pytest.mark.parametrize("second", [0.6, 0.55])
    def test_too_few_disagreements(self, second):
        """None, or all on one side of the truth."""
        with pytest.warns(UserWarning, match=f"disagree about .* of the further rows.*: {ALONE}"):
            model = ThreeLearnerBoostingClassifier(thresholds(0.6, second)).fit(LINE, LINE_Y)
        assert len(model) == 1
        np.testing.assert_array_equal(model.predict(LINE), LINE[:, 0] > 0.6)

    def test_a_rare_class_is_in_the_first_set(self):
        y = np.arange(300) >= 298
        for seed in range(20):
            with pytest.warns(UserWarning, match=ALONE):
                model = ThreeLearnerBoostingClassifier(random_state=seed, max_samples=0.3)
                model.fit(LINE, y)
            assert y[model.estimators_samples_[0]].any()

    def test_a_class_that_is_too_rare(self):
        y = np.arange(100_000) == 7
        with raises(ValueError, "max_samples=5 draws 5 of 100000", "1 rows", "Raise max_samples"):
            ThreeLearnerBoostingClassifier(max_samples=5).fit(np.zeros((100_000, 1)), y)


class TestInputs:
    @pytest.mark.slow
    def test_other_containers(self):
        plain = ThreeLearnerBoostingClassifier(LogisticRegression()).fit(BIG, BIG_Y)
        expected = plain.predict(BIG)
        frame = pd.DataFrame(BIG, columns=list("abcde"))
        model = clone(plain).fit(frame, BIG_Y)
        np.testing.assert_array_equal(model.predict(frame), expected)
        assert model.feature_names_in_.tolist() == list("abcde")
        zeros = np.where(np.abs(BIG) < 0.5, 0, BIG)
        sparse = clone(plain).fit(scipy.sparse.csr_array(zeros), BIG_Y)
        dense = clone(plain).fit(zeros, BIG_Y)
        agree = sparse.predict(scipy.sparse.csr_array(zeros)) == dense.predict(zeros)
        assert agree.mean() > 0.999

    def test_pickle_and_container(self):
        model = ThreeLearnerBoostingClassifier().fit(X, Y)
        copy = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copy.predict(X), model.predict(X))
        assert len(model) == len(list(model)) == len(model.estimators_)

    def test_more_classes_one_by_one(self):
        y = np.digitize(BIG[:, 0] + BIG[:, 1], [-0.7, 0.7])
        model = OneVsRestClassifier(
            ThreeLearnerBoostingClassifier(DecisionTreeClassifier(max_depth=5))
        ).fit(BIG, y)
        assert model.score(BIG, y) > 0.8

    @pytest.mark.parametrize("value", [0, -1, 0.0, 1.0, 1.5, "half", None, True, float("nan")])
    def test_max_samples(self, value):
        with raises(ValueError, "max_samples must be an integer >= 1 or a float in (0, 1)"):
            ThreeLearnerBoostingClassifier(max_samples=value).fit(X, Y)

    @pytest.mark.parametrize("value", [len(X) - 1, len(X) + 5, 0.999])
    def test_too_few_rows_are_left(self, value):
        with raises(ValueError, f"max_samples={value} gives", "two must be left"):
            ThreeLearnerBoostingClassifier(max_samples=value).fit(X, Y)

    @pytest.mark.parametrize("base", [3, "tree", DecisionTreeClassifier])
    def test_no_estimator(self, base):
        with raises(TypeError, "estimator must be None or an object with the methods fit, predict"):
            ThreeLearnerBoostingClassifier(base).fit(X, Y)
        with raises(TypeError, "must be a classifier, got LinearRegression()"):
            ThreeLearnerBoostingClassifier(LinearRegression()).fit(X, Y)

    def test_settings(self):
        for name, value in (("random_state", "seed"), ("device", "gpu")):
            with raises(ValueError, f"{name} must be", repr(value)):
                ThreeLearnerBoostingClassifier(**{name: value}).fit(X, Y)

    def test_targets(self):
        for wrong, *parts in [
            (None, "requires y to be passed"),
            (np.ones(len(X)), "y holds 1 class"),
            (np.arange(len(X)) % 3, "Only binary classification is supported", "3 classes"),
            (np.where(np.arange(len(X)) == 5, np.nan, Y), "y contains NaN"),
            (Y + 0.5 * (np.arange(len(X)) == 3), "Unknown label type: continuous"),
            (Y[1:], f"y has {len(X) - 1} values, X has {len(X)} rows"),
            (np.stack([Y, Y], axis=1), "y should be a 1d array"),
        ]:
            with raises(ValueError, *parts):
                ThreeLearnerBoostingClassifier().fit(X, wrong)
