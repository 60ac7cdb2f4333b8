"""What votes say about wrong parameters, members and data."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gpuens import VotingClassifier, VotingRegressor
from tests.support.errors import raises
from tests.support.user_estimators import FailsToFit, NearestMean

X, C = load_wine(return_X_y=True)
X = X[:, :4]
XR, Y = load_diabetes(return_X_y=True)
CLASSIFIERS = [("bayes", GaussianNB()), ("near", KNeighborsClassifier())]
REGRESSORS = [("ridge", Ridge()), ("linear", LinearRegression())]
BOTH = [(VotingClassifier, CLASSIFIERS, X, C), (VotingRegressor, REGRESSORS, XR, Y)]
both = pytest.mark.parametrize("cls, members, X, y", BOTH, ids=["classifier", "regressor"])


class TestParameters:
    @both
    @pytest.mark.parametrize("name, value, wants", [
        ("weights", [1], "Number of `estimators` and weights must be equal; got 1 weights, 2"),
        ("weights", [[1, 2]], "got an array of shape (1, 2) as weights, 2 estimators"),
        ("weights", 3.0, "got an array of shape () as weights"),
        ("weights", [1, -1], "weights must be finite numbers >= 0, got [1.0, -1.0]"),
        ("weights", [1, np.nan], "got [1.0, nan]"),
        ("weights", [0, 0], "weights sum to zero over the estimators"),
        ("weights", ["a", "b"], "weights must hold numbers, got ['a', 'b']"),
        ("weights", "best", "'accuracy', 'optimal', 'greedy' or a function, got 'best'"),
        ("validation_fraction", 0.0, "a number in (0, 1) or a number of rows >= 1, got 0.0"),
        ("validation_fraction", 1.0, "got 1.0"),
        ("validation_fraction", 0, "got 0"),
        ("validation_fraction", True, "got True"),
        ("prefit", "yes", "prefit must be True or False, got 'yes'"),
    ])  # fmt: skip
    def test_values(self, cls, members, X, y, name, value, wants):
        with raises(ValueError, wants):
            cls(members, **{name: value}).fit(X, y)

    def test_voting(self):
        with raises(ValueError, "voting must be 'hard' or 'soft', got 'both'"):
            VotingClassifier(CLASSIFIERS, voting="both").fit(X, C)
        with raises(ValueError, "flatten_transform must be True or False, got 1"):
            VotingClassifier(CLASSIFIERS, flatten_transform=1).fit(X, C)
        with raises(ValueError, "voting='soft' averages probabilities, but 'p', a Perceptron, has",
                    "CalibratedClassifierCV"):  # fmt: skip
            VotingClassifier([("p", Perceptron())], voting="soft").fit(X, C)
        with raises(ValueError, "weights='optimal' needs probabilities", "voting='soft'"):
            VotingClassifier(CLASSIFIERS, weights="optimal").fit(X, C)

    @both
    @pytest.mark.parametrize("wrong", [
        [], {}, None, [LogisticRegression()], [(1, LogisticRegression())], "ridge", [("a",)],
    ], ids=str)  # fmt: skip
    def test_estimators(self, cls, members, X, y, wrong):
        with raises(ValueError, "Invalid 'estimators' attribute", "non-empty list"):
            cls(wrong).fit(X, y)
        assert "device" in cls(wrong).get_params()

    @both
    def test_names(self, cls, members, X, y):
        one = members[0][1]
        with raises(ValueError, "Names provided are not unique: ['a'] in ['a', 'b', 'a']"):
            cls([("a", one), ("b", one), ("a", one)]).fit(X, y)
        with raises(ValueError, "conflict with constructor arguments: ['weights']"):
            cls([("weights", one)]).fit(X, y)
        with raises(ValueError, "must not contain __: got ['a__b']"):
            cls([("a__b", one)]).fit(X, y)

    @both
    def test_members(self, cls, members, X, y):
        with raises(ValueError, "All estimators are dropped"):
            cls([("a", "drop"), ("b", "drop")]).fit(X, y)
        with raises(ValueError, "weights sum to zero over the estimators that are not dropped"):
            cls([*members[:1], ("b", "drop")], weights=[0, 1]).fit(X, y)
        for wrong in (3, type(members[0][1]), None, "ridge"):
            with raises(TypeError, "objects with a method fit, or 'drop'", "for 'a'"):
                cls([("a", wrong)]).fit(X, y)

    def test_kinds_of_members(self):
        with raises(ValueError, "The estimator Ridge should be a classifier: 'ridge' is not"):
            VotingClassifier([("ridge", Ridge())]).fit(X, C)
        with raises(ValueError, "The estimator GaussianNB should be a regressor"):
            VotingRegressor([("bayes", GaussianNB())]).fit(XR, Y)
        with raises(ValueError, "The estimator StandardScaler should be a classifier"):
            VotingClassifier([("scale", StandardScaler())]).fit(X, C)

    def test_one_member_is_fine(self):
        model = VotingClassifier(CLASSIFIERS[:1], voting="soft", weights="optimal").fit(X, C)
        assert model.weights_.tolist() == [1]

    @both
    def test_functions_for_weights(self, cls, members, X, y):
        for wrong in ([1], [-1, 2], [np.nan, 1]):
            with raises(ValueError, "weights must be a function that returns 2 numbers >= 0"):
                cls(members, weights=lambda *args, wrong=wrong, **settings: wrong).fit(X, y)


class TestData:
    def test_labels(self):
        with raises(ValueError, "Unknown label type: continuous"):
            VotingClassifier(CLASSIFIERS).fit(XR, Y + 0.5)
        with raises(NotImplementedError, "one label a row, got a y of shape (178, 2)"):
            VotingClassifier(CLASSIFIERS).fit(X, np.stack([C, C], axis=1))
        with raises(ValueError, "NaN"):
            VotingClassifier(CLASSIFIERS).fit(X, np.where(C == 0, np.nan, C))

    def test_members_without_weights(self):
        weight = np.ones(len(C))
        with raises(TypeError, "Underlying estimator KNeighborsClassifier does not support sample",
                    "Drop 'near'"):  # fmt: skip
            VotingClassifier(CLASSIFIERS).fit(X, C, weight)
        pipe = make_pipeline(StandardScaler(), KNeighborsClassifier())
        with raises(TypeError, "Underlying estimator KNeighborsClassifier", "Drop 'pipe'"):
            VotingClassifier([("pipe", pipe)]).fit(X, C, weight)

    @both
    def test_metadata_without_routing(self, cls, members, X, y):
        with raises(ValueError, "['groups'] are passed to", "enable_metadata_routing=True"):
            cls(members).fit(X, y, groups=y)

    @both
    def test_evaluation_sets(self, cls, members, X, y):
        model = cls(members, weights="accuracy")
        for wrong in ([X, y], (X,), 3, (X, y, y, y)):
            with raises(ValueError, "eval_set must be a tuple (X, y) or (X, y, sample_weight)"):
                model.fit(X, y, eval_set=wrong)
        with raises(ValueError, "eval_set is for weights that are learned", "weights is [1, 2]"):
            cls(members, weights=[1, 2]).fit(X, y, eval_set=(X, y))
        with raises(ValueError, "y has 5 values, X has 6 rows"):
            model.fit(X, y, eval_set=(X[:6], y[:5]))
        with raises(ValueError, "features"):
            model.fit(X, y, eval_set=(X[:, 1:], y))

    def test_evaluation_sets_with_other_targets(self):
        model = VotingClassifier(CLASSIFIERS, weights="accuracy")
        with raises(ValueError, "eval_set's y holds the classes [7]", "they know [0, 1, 2]"):
            model.fit(X, C, eval_set=(X, np.where(C == 1, 7, C)))
        with raises(ValueError, "eval_set has a y of shape (442, 2)"):
            VotingRegressor(REGRESSORS, weights="optimal").fit(
                XR, Y, eval_set=(XR, np.stack([Y, Y], axis=1))
            )

    @both
    def test_too_few_rows_to_hold_out(self, cls, members, X, y):
        with raises(ValueError, "validation_fraction=178 of 178 rows cannot be held out"):
            cls(members, weights="accuracy", validation_fraction=178).fit(X[:178], y[:178])

    def test_a_class_is_held_out_whole(self):
        y = np.array(["rare", *["common"] * 99])
        table = np.random.default_rng(0).normal(size=(100, 2))
        wrong = 0
        for seed in range(8):
            model = VotingClassifier([("b", GaussianNB())], weights="accuracy", random_state=seed)
            try:
                model.fit(table, y)
            except ValueError as error:
                wrong += 1
                assert "The member 'b' knows the classes [common], the ensemble has" in str(error)
                assert "hold out fewer rows" in str(error)
        assert 0 < wrong < 8


class TestMembers:
    @both
    def test_members_that_are_not_fitted(self, cls, members, X, y):
        with raises(NotFittedError, f"The member {members[0][0]!r}", "FrozenEstimator"):
            cls(members, prefit=True).fit(X, y)

    def test_prefit_members_that_disagree(self):
        first, second = GaussianNB().fit(X, C), GaussianNB().fit(X, C * 2)
        with raises(ValueError, "disagree in their classes: 'b' knows [0, 2, 4], 'a' knows [0, 1"):
            VotingClassifier([("a", first), ("b", second)], prefit=True).fit(X, C)
        with raises(ValueError, "y holds the classes [9], which the members do not know"):
            VotingClassifier([("a", first)], prefit=True).fit(X, np.where(C == 0, 9, C))
        narrow = GaussianNB().fit(X[:, 1:], C)
        with raises(ValueError, "The member 'b' was fitted on 3 features, X has 4"):
            VotingClassifier([("a", first), ("b", narrow)], prefit=True).fit(X, C)

    def test_answers_of_a_wrong_shape(self):
        class Narrow(NearestMean):
            def predict_proba(self, X):
                return np.ones((len(X), 2)) / 2

        model = VotingClassifier([("n", Narrow())], voting="soft").fit(X, C)
        with raises(ValueError, "'n' gives probabilities of shape (178, 2) for 178 rows and 3"):
            model.predict(X)

        class Short(Ridge):
            def predict(self, X):
                return super().predict(X)[1:]

        model = VotingRegressor([("s", Short())]).fit(XR, Y)
        with raises(ValueError, "'s' predicts values of shape (441,), but must predict (442,)"):
            model.predict(XR)

    def test_nan_in_predictions(self):
        class Broken(Ridge):
            def predict(self, X):
                return super().predict(X) * np.nan

        with raises(ValueError, "predictions must hold finite numbers"):
            VotingRegressor([*REGRESSORS, ("b", Broken())], weights="optimal").fit(XR, Y)

    @both
    def test_training_that_fails_leaves_the_ensemble_as_it_was(self, cls, members, X, y):
        model = cls(members).fit(X, y)
        before = model.predict(X)
        kind = ClassifierMixin if cls is VotingClassifier else RegressorMixin
        fails = type("Fails", (kind, FailsToFit), {})
        model.estimators = [*members, ("bad", fails())]
        with raises(RuntimeError, "no luck"):
            model.fit(X[:, 1:], y)
        np.testing.assert_array_equal(model.predict(X), before)

    @both
    def test_names_of_features(self, cls, members, X, y):
        model = cls(members).fit(X, y)
        with raises(
            ValueError,
            f"input_features should have length equal to number of features ({X.shape[1]})",
        ):
            model.get_feature_names_out(["a"])
        with pytest.raises(NotFittedError):
            clone(model).get_feature_names_out()
