"""Sets of classes: their coverage, their definition by hand, bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier as OtherForest
from sklearn.linear_model import LogisticRegression, Perceptron, Ridge
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.naive_bayes import GaussianNB

from gpuens import (
    ConformalClassifier,
    DecisionTreeClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    load,
    save,
)
from gpuens.devices.placement import CPU
from gpuens.members.rows import MemberRows
from tests.support.lanes import few

LABELS = np.array(["high", "low", "middle"])
BOOSTING = GradientBoostingClassifier(n_estimators=3, device="cpu", n_jobs=1)
CASES = [(method, score) for method in ("split", "cv+") for score in ("lac", "aps")]
both = pytest.mark.parametrize(("method", "score"), CASES)


def rows(n, seed):
    """Classes as text, of which the rarest has about 7 % of the rows."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    noisy = X[:, 0] + random.normal(size=n) * (0.3 + abs(X[:, 1]))
    return X, LABELS[np.digitize(noisy, [-0.3, 2.0])]


class Softmax(ClassifierMixin, BaseEstimator):
    """Knows the probabilities: features are logits."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        return softmax(X, axis=1)


def columns(model, y):
    return np.searchsorted(model.classes_, y)


def covered(model, X, y, coverage):
    return model.predict_set(X, coverage)[np.arange(len(y)), columns(model, y)].mean()


def by_hand(score, p, u):
    """The error of every class, one row after the other."""
    if score == "lac":
        return 1 - p
    return np.array([
        [sum(other for other in row if other > own) + part * own for own in row]
        for row, part in zip(p, u, strict=True)
    ])  # fmt: skip


class TestCoverage:
    """Over many training sets: the standard error of these means is below 0.003."""

    def mean(self, model, n, coverage=0.9, sets=120):
        shares = []
        for seed in range(sets):
            X, y = rows(n + 300, seed)
            model.set_params(random_state=seed).fit(X[:n], y[:n])
            shares.append(covered(model, X[n:], y[n:], coverage))
        return np.mean(shares)

    @pytest.mark.parametrize("coverage", few([0.6, 0.9], 1))
    @pytest.mark.parametrize("score", ["lac", "aps"])
    def test_rows_held_out(self, score, coverage):
        model = ConformalClassifier(GaussianNB(), conformity_score=score, calibration_size=99)
        assert abs(self.mean(model, 180, coverage) - coverage) < 0.012

    @pytest.mark.parametrize("score", few(["lac", "aps"], "aps"))
    def test_folds(self, score):
        """Sets of models that differ contain a little more."""
        model = ConformalClassifier(GaussianNB(), method="cv+", conformity_score=score, cv=4)
        assert -0.01 < self.mean(model, 180, sets=40) - 0.9 < 0.03

    @pytest.mark.parametrize("score", ["lac", "aps"])
    def test_a_classifier_that_is_too_sure(self, score):
        """The coverage does not need probabilities that are right: trees say 0 and 1."""
        tree = DecisionTreeClassifier(device="cpu", n_jobs=1, max_depth=6)
        model = ConformalClassifier(tree, conformity_score=score, calibration_size=99)
        assert self.mean(model, 200, sets=40) > 0.895

    def test_aps_covers_every_region_where_probabilities_are_right(self):
        random = np.random.default_rng(0)
        X = random.normal(size=(30_000, 4)) * random.choice([0.5, 4.0], (30_000, 1))
        p = softmax(X, axis=1)
        y = (p.cumsum(axis=1) < random.random((30_000, 1))).sum(axis=1)
        sure, rest = p[15_000:].max(axis=1) > 0.95, slice(15_000, None)
        found = {}
        for score in ("lac", "aps"):
            model = ConformalClassifier(Softmax(), conformity_score=score, random_state=0)
            sets = model.fit(X[:15_000], y[:15_000]).predict_set(X[rest], 0.8)
            right = sets[np.arange(15_000), y[rest]]
            found[score] = right[sure].mean(), right[~sure].mean(), sets.sum(axis=1).mean()
        assert found["aps"][:2] == pytest.approx((0.8, 0.8), abs=0.015)
        assert found["lac"][0] > 0.95 and found["lac"][1] < 0.77
        assert found["lac"][2] < found["aps"][2]


class TestDefinitions:
    @both
    def test_sets(self, method, score):
        """A class is in a set if fewer than coverage (n + 1) errors are smaller than its own."""
        X, y = rows(61, 1)
        new, _ = rows(17, 2)
        model = ConformalClassifier(
            LogisticRegression(), method=method, conformity_score=score, cv=KFold(4),
            calibration_size=25, random_state=5,
        ).fit(X, y)  # fmt: skip
        assert model.classes_.tolist() == LABELS.tolist()
        calibrating, predicting = (model._draws(MemberRows(table, CPU)) for table in (X, new))
        if method == "split":
            parts, models = model._parts(61), [model.estimator_]
            assert [len(held_out) for _, held_out in parts] == [25]
        else:
            parts, models = list(KFold(4).split(X)), model.fold_estimators_
        smaller, n = np.zeros((17, 3)), 0
        for (train, held_out), own in zip(parts, models, strict=True):
            other = LogisticRegression().fit(X[train], y[train])
            np.testing.assert_array_equal(own.coef_, other.coef_)
            errors = by_hand(score, other.predict_proba(X[held_out]), calibrating[held_out])
            errors = errors[np.arange(len(held_out)), np.searchsorted(LABELS, y[held_out])]
            of_new = by_hand(score, other.predict_proba(new), predicting)
            smaller += (errors[:, None, None] < of_new).sum(axis=0)
            n += len(held_out)
        assert model.n_calibration_ == n
        for coverage in (0.2, 0.5, 0.9):
            np.testing.assert_array_equal(
                model.predict_set(new, coverage), smaller < coverage * (n + 1)
            )

    @both
    def test_sets_grow_with_the_coverage(self, method, score):
        X, y = rows(400, 1)
        model = ConformalClassifier(BOOSTING, method=method, conformity_score=score, cv=4)
        sets = [model.fit(X, y).predict_set(X, coverage) for coverage in (0.3, 0.8, 0.99)]
        assert (sets[0] <= sets[1]).all() and (sets[1] <= sets[2]).all()
        assert sets[0].sum() < sets[1].sum() < sets[2].sum()

    def test_a_row_has_the_same_set_in_every_table(self):
        """Rows that are predicted one by one would else share one random part."""
        X, y = rows(900, 1)
        model = ConformalClassifier(LogisticRegression(), conformity_score="aps").fit(X, y)
        new, of_new = rows(400, 2)
        sets = np.concatenate([model.predict_set(new[i : i + 1], 0.8) for i in range(400)])
        np.testing.assert_array_equal(sets, model.predict_set(new, 0.8))
        covered = sets[np.arange(400), np.searchsorted(LABELS, of_new)].mean()
        assert 0.74 < covered < 0.86

    @pytest.mark.parametrize(
        ("cv", "message"),
        [
            (StratifiedKFold(3), "cannot divide rows without y and groups"),
            (
                [(np.arange(60), np.arange(30)), (np.arange(60), np.arange(30, 60))],
                "measures models on rows that they were trained on",
            ),
        ],
    )
    def test_folds_without_a_guarantee(self, cv, message):
        X, y = rows(60, 1)
        with pytest.raises(ValueError, match=message):
            ConformalClassifier(LogisticRegression(), method="cv+", cv=cv).fit(X, y)

    def test_the_number_of_errors(self):
        """The nine errors of nine rows give a coverage of 0.9, and no more."""
        X, y = rows(60, 1)
        model = ConformalClassifier(LogisticRegression(), calibration_size=9, random_state=0)
        model.fit(X, y).predict_set(X, 0.9)
        with pytest.raises(ValueError, match="coverage=0.95 takes the errors of at least 19 rows"):
            model.predict_set(X, 0.95)

    def test_a_class_that_a_fold_has_not_seen(self):
        X, y = rows(60, 1)
        y[7] = "rare"
        model = ConformalClassifier(LogisticRegression(), method="cv+", cv=KFold(3)).fit(X, y)
        assert [len(m.classes_) for m in model.fold_estimators_] == [3, 4, 4]
        assert model.scores_[0][-1] == 1.0
        assert model.predict_set(X).shape == model.predict_proba(X).shape == (60, 4)


@both
class TestEstimator:
    def model(self, method, score):
        return ConformalClassifier(BOOSTING, method=method, conformity_score=score, cv=3)

    def test_frames_weights_and_files(self, method, score, tmp_path):
        X, y = rows(300, 1)
        frame = pd.DataFrame(X, columns=["a", "b", "c"])
        weight = np.arange(300) % 3 + 1.0
        model = self.model(method, score).fit(frame, pd.Series(y), weight)
        assert model.feature_names_in_.tolist() == ["a", "b", "c"] and model.n_features_in_ == 3
        plain = self.model(method, score).fit(frame, y)
        assert (plain.predict_proba(frame) != model.predict_proba(frame)).any()
        save(model, tmp_path / "model")
        again = load(tmp_path / "model")
        np.testing.assert_array_equal(again.predict_set(frame), model.predict_set(frame))
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
        assert model.score(frame, y) == again.score(frame, y) > 0.5

    def test_the_seed_draws_everything(self, method, score):
        X, y = rows(300, 1)
        model = self.model(method, score)
        first, second = (model.fit(X, y).predict_set(X) for _ in range(2))
        np.testing.assert_array_equal(first, second)
        np.testing.assert_array_equal(model.predict_set(X), first)
        other = model.set_params(random_state=1).fit(X, y).predict_set(X)
        assert (other != first).any()

    def test_settings_after_the_fit(self, method, score):
        X, y = rows(300, 1)
        model = self.model(method, score).fit(X, y)
        expected = model.predict_set(X)
        model.set_params(conformity_score="lac" if score == "aps" else "aps", random_state=7)
        np.testing.assert_array_equal(model.predict_set(X), expected)
        model.set_params(method="cv+" if method == "split" else "split")
        for task in (model.predict, model.predict_proba, model.predict_set):
            with pytest.raises(ValueError, match=f"method must be '{method[:2]}.*, with which"):
                task(X)

    @pytest.mark.parametrize("labels", [[3, 7, 20], [False, True, True], [1.0, 2.0, 3.0]])
    def test_labels_of_numbers(self, method, score, labels):
        X, y = rows(300, 1)
        model = self.model(method, score)
        codes = np.searchsorted(LABELS, y)
        target = np.array(labels)[codes]
        assert model.fit(X, target).predict(X).dtype == target.dtype
        assert covered(model, X, target, 0.9) > 0.85


class TestBadInput:
    @pytest.mark.parametrize(
        ("params", "kind", "match"),
        [
            ({"method": "bag"}, ValueError, r"method must be one of \('split', 'cv\+'\)"),
            ({"conformity_score": "raps"}, ValueError, "conformity_score must be one of .*'raps'"),
            ({"conformity_score": None}, ValueError, "conformity_score must be one of .*None"),
            ({"method": "cv+", "cv": 61}, ValueError, "cv must be from 2 to the 60 rows"),
            ({"method": "cv+", "cv": [([0, 1], [2, 3])]}, ValueError, "exactly one fold"),
            ({"calibration_size": 60}, ValueError, "calibration_size=60 of 60 rows"),
            ({"estimator": Ridge()}, TypeError, "estimator must be a classifier, got Ridge"),
            ({"estimator": Perceptron()}, TypeError, "must have predict_proba, got Perceptron"),
            ({"random_state": -1}, ValueError, "random_state must be"),
        ],
    )  # fmt: skip
    def test_parameters(self, params, kind, match):
        X, y = rows(60, 1)
        with pytest.raises(kind, match=match):
            ConformalClassifier(**{"estimator": BOOSTING} | params).fit(X, y)

    def test_targets(self):
        X, y = rows(60, 1)
        with pytest.raises(ValueError, match="must be at least 2"):
            ConformalClassifier(BOOSTING).fit(X, np.full(60, "a"))
        with pytest.raises(ValueError, match="continuous"):
            ConformalClassifier(BOOSTING).fit(X, X[:, 0])
        with pytest.raises(ValueError, match="shape"):
            ConformalClassifier(OtherForest(2)).fit(X, np.stack([y, y], axis=1))

    @pytest.mark.parametrize("coverage", [0, 1, 1.5, "90 %", None, np.nan])
    def test_coverage(self, coverage):
        X, y = rows(60, 1)
        model = ConformalClassifier(BOOSTING).fit(X, y)
        with pytest.raises(ValueError, match="coverage must be a number between 0 and 1"):
            model.predict_set(X, coverage)

    def test_a_failed_fit_leaves_the_model(self):
        X, y = rows(60, 1)
        model = ConformalClassifier(ExtraTreesClassifier(5, device="cpu")).fit(X, y)
        expected = model.predict_set(X)
        with pytest.raises(ValueError, match="must be at least 2"):
            model.fit(X, np.full(60, "a"))
        np.testing.assert_array_equal(model.predict_set(X), expected)
        assert model.classes_.tolist() == LABELS.tolist()
