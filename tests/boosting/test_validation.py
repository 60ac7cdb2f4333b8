"""Rows for early stopping: held out as scikit-learn does, or passed as X_val and y_val."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state

from gpuens import GradientBoostingClassifier, GradientBoostingRegressor
from gpuens.estimators.validation import seed_of_split, split_rows

REGRESSION = load_diabetes(return_X_y=True)
TWO_CLASSES = load_breast_cancer(return_X_y=True)
THREE_CLASSES = load_wine(return_X_y=True)
SMALL: dict[str, Any] = {"n_estimators": 40, "min_samples_leaf": 5, "early_stopping": True}
PROBLEMS = [
    pytest.param(GradientBoostingRegressor, HistGradientBoostingRegressor, REGRESSION,
                 id="regression"),
    pytest.param(GradientBoostingClassifier, HistGradientBoostingClassifier, TWO_CLASSES,
                 id="2 classes"),
    pytest.param(GradientBoostingClassifier, HistGradientBoostingClassifier, THREE_CLASSES,
                 id="3 classes"),
]  # fmt: skip
problems = pytest.mark.parametrize("cls, peer, data", PROBLEMS)


def own_split(y, fraction, seed, stratify, *arrays):
    """What scikit-learn's HistGradientBoosting does in ``fit``."""
    drawn = check_random_state(seed).randint(np.iinfo(np.uint32).max, dtype="u8")
    labels = y if stratify else None
    return train_test_split(*arrays, test_size=fraction, stratify=labels, random_state=drawn)


def raises(*parts):
    return pytest.raises(ValueError, match=".*".join(map(re.escape, parts)))


@problems
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", [0, 7])
def test_rows_passed_are_as_rows_held_out(cls, peer, data, weighted, seed):
    X, y = data
    weight = np.random.default_rng(1).uniform(0.5, 2, len(y)) if weighted else np.ones(len(y))
    classifier = cls is GradientBoostingClassifier
    parts = own_split(y, 0.25, seed, classifier, X, y, weight)
    X_train, X_val, y_train, y_val, w_train, w_val = parts
    model = cls(**SMALL, validation_fraction=0.25, random_state=seed)
    held_out = model.fit(X, y, weight if weighted else None)
    fingerprint, evals = held_out.forest_.fingerprint(), held_out.evals_result_
    of_weight = {"sample_weight": w_train, "sample_weight_val": w_val} if weighted else {}
    passed = cls(**SMALL, random_state=seed).fit(
        X_train, y_train, X_val=X_val, y_val=y_val, **of_weight
    )
    assert passed.forest_.fingerprint() == fingerprint
    assert passed.evals_result_ == evals and list(evals) == ["validation"]


@pytest.mark.slow
@problems
def test_the_rows_held_out_are_those_of_scikit_learn(cls, peer, data):
    """The score before the first tree says which rows: it is that of the constant of the others."""
    X, y = data
    for seed in (0, 1, 42):
        weight = np.random.default_rng(seed).uniform(0.1, 2, len(y))  # tells rows of a class apart
        settings = {"early_stopping": True, "random_state": seed}
        ours = cls(n_estimators=1, **settings).fit(X, y, weight)
        theirs = peer(max_iter=1, **settings).fit(X, y, weight)
        assert ours.validation_score_[0] == pytest.approx(theirs.validation_score_[0], rel=1e-6)


def test_the_order_of_the_rows_is_that_of_the_split():
    y = np.repeat([0.0, 1.0], 10)
    train, held_out = split_rows(20, y, np.empty(0), 0.3, 2, 5)
    expected = train_test_split(
        np.arange(20), test_size=0.3, stratify=y, random_state=seed_of_split(5)
    )
    assert train.tolist() == expected[0].tolist() and held_out.tolist() == expected[1].tolist()
    assert seed_of_split(5) == np.random.RandomState(5).randint(2**32 - 1, dtype="u8")


@pytest.mark.parametrize("cls, data", [(GradientBoostingRegressor, REGRESSION),
                                       (GradientBoostingClassifier, TWO_CLASSES)])  # fmt: skip
def test_all_trees_may_be_kept(cls, data):
    settings = SMALL | {"n_estimators": 300, "learning_rate": 0.5, "n_iter_no_change": 4}
    best = cls(**settings).fit(*data)
    every = cls(**settings, keep_best=False).fit(*data)
    scores = every.validation_score_
    assert every.stopped_ == best.stopped_ == "early stopping"
    assert every.n_iter_ == len(scores) - 1 == every.forest_.n_trees
    assert best.n_iter_ == int(np.argmax(scores)) < every.n_iter_
    np.testing.assert_array_equal(best.validation_score_, scores)
    assert every.forest_.slice(0, best.n_iter_).fingerprint() == best.forest_.fingerprint()


def test_a_warm_start_goes_on_from_all_trees():
    settings = SMALL | {"keep_best": False, "warm_start": True, "n_iter_no_change": 500}
    whole = GradientBoostingRegressor(**settings).fit(*REGRESSION)
    model = GradientBoostingRegressor(**settings | {"n_estimators": 15}).fit(*REGRESSION)
    model.set_params(n_estimators=40).fit(*REGRESSION)
    assert model.forest_.fingerprint() == whole.forest_.fingerprint()
    assert model.evals_result_ == whole.evals_result_


@problems
def test_no_scoring_is_the_score_of_the_estimator(cls, peer, data):
    X, y = data
    model = cls(**SMALL, scoring=None, validation_fraction=None).fit(X, y)
    (name,) = model.evals_result_["training"]
    score = {"r2": r2_score, "accuracy": accuracy_score}[name]
    staged = [score(y, prediction) for prediction in model.staged_predict(X)]
    np.testing.assert_allclose(model.train_score_[1 : len(staged) + 1], staged)
    assert model.validation_score_.size == 0
    mixed = cls(**SMALL, scoring=[None, "loss"]).fit(X, y)
    assert list(mixed.evals_result_["validation"]) == [name, "loss"]
    assert mixed.train_score_.size == 0 and mixed.validation_score_.size


@problems
def test_training_scores_beside_those_of_other_rows(cls, peer, data):
    """Early stopping watches the others, and the trees are the same."""
    settings = SMALL | {"n_iter_no_change": 3, "learning_rate": 0.5}
    quiet, shown = cls(**settings).fit(*data), cls(**settings, verbose=1).fit(*data)
    assert list(shown.evals_result_) == ["validation", "training"]
    assert shown.evals_result_["validation"] == quiet.evals_result_["validation"]
    assert shown.forest_.fingerprint() == quiet.forest_.fingerprint()
    assert shown.best_iteration_ == quiet.best_iteration_
    assert shown.train_score_.size == shown.validation_score_.size > shown.n_iter_
    assert quiet.train_score_.size == 0
    X, y = data
    of_set = cls(**settings, verbose=1).fit(X, y, eval_set=(X, y))
    np.testing.assert_array_equal(of_set.train_score_, of_set.validation_score_)


class TestBadInput:
    X, y = REGRESSION
    model = GradientBoostingRegressor(n_estimators=2, early_stopping="auto")

    def test_one_without_the_other(self):
        with raises("X_val is provided, but y_val was not provided", "pass both"):
            self.model.fit(self.X, self.y, X_val=self.X)
        with raises("y_val is provided, but X_val was not provided", "pass both"):
            self.model.fit(self.X, self.y, y_val=self.y)
        with raises("sample_weight_val is provided, but X_val and y_val were not"):
            self.model.fit(self.X, self.y, sample_weight_val=self.y)

    def test_nothing_watches_them(self):
        data = {"X_val": self.X, "y_val": self.y}
        with raises("passed to fit while at the same time early_stopping is False", "eval_set="):
            GradientBoostingRegressor().fit(self.X, self.y, **data)

    def test_beside_evaluation_sets(self):
        data = {"X_val": self.X, "y_val": self.y, "eval_set": (self.X, self.y)}
        with raises("X_val and eval_set are two names", "eval_set, as [(X_val, y_val), ...]"):
            self.model.fit(self.X, self.y, **data)

    def test_beside_weights_of_evaluation_sets(self):
        data = {"X_val": self.X, "y_val": self.y, "eval_sample_weight": self.y}
        with raises("eval_sample_weight must be a list", "the 0 evaluation sets, got ndarray"):
            self.model.fit(self.X, self.y, **data)

    @pytest.mark.parametrize("change, parts", [
        ({"X_val": REGRESSION[0][:, :3]}, ["X has 3 features, but", "is expecting 10"]),
        ({"X_val": REGRESSION[0].astype(str)}, ["X_val must hold numbers"]),
        ({"y_val": REGRESSION[1][:9]}, ["inconsistent numbers of samples: y_val has 9 values",
                                        "X has 442 rows"]),
        ({"y_val": np.full(442, np.nan)}, ["Input y_val contains NaN"]),
        ({"y_val": np.full(442, 1e38)}, ["y_val has values up to 1e+38"]),
        ({"sample_weight_val": np.ones(3)}, ["sample_weight_val.shape == (3,), expected (442,)"]),
        ({"sample_weight_val": np.zeros(442)}, ["sample_weight_val is zero for every row"]),
    ])  # fmt: skip
    def test_arrays(self, change, parts):
        with raises(*parts):
            self.model.fit(self.X, self.y, **{"X_val": self.X, "y_val": self.y} | change)

    def test_classes_that_the_model_does_not_know(self):
        X, y = THREE_CLASSES
        model = GradientBoostingClassifier(n_estimators=2, early_stopping=True)
        with raises("y_val has classes that the model does not know: [7]"):
            model.fit(X, y, X_val=X, y_val=np.full(len(y), 7))
