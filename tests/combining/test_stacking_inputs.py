"""What stacks say about wrong parameters, members, folds and data."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.datasets import load_diabetes, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, Perceptron, Ridge
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from gpuens import StackingClassifier, StackingRegressor
from tests.support.errors import raises
from tests.support.user_estimators import FailsToFit, NearestMean

X, C = load_wine(return_X_y=True)
X = X[:, :4]
XR, Y = load_diabetes(return_X_y=True)
CLASSIFIERS = [("bayes", GaussianNB()), ("near", KNeighborsClassifier())]
REGRESSORS = [("ridge", Ridge()), ("linear", LinearRegression())]
BOTH = [(StackingClassifier, CLASSIFIERS, X, C), (StackingRegressor, REGRESSORS, XR, Y)]
both = pytest.mark.parametrize("cls, members, X, y", BOTH, ids=["classifier", "regressor"])


class TestParameters:
    @both
    @pytest.mark.parametrize("name, value, wants", [
        ("cv", 1, "a number of folds >= 2"), ("cv", 0.0, "got 0.0"), ("cv", 1.0, "got 1.0"),
        ("cv", True, "got True"), ("cv", "folds", "got 'folds'"), ("cv", [], "got []"),
        ("cv", KFold, "got <class"), ("cv", [1, 2], "got [1, 2]"),
        ("passthrough", 1, "passthrough must be True or False, got 1"),
    ])  # fmt: skip
    def test_values(self, cls, members, X, y, name, value, wants):
        with raises(ValueError, wants):
            cls(members, **{name: value}).fit(X, y)

    def test_stack_method(self):
        for wrong in ("proba", None, 3):
            with raises(ValueError, "stack_method must be 'auto', 'predict_proba'", "got"):
                StackingClassifier(CLASSIFIERS, stack_method=wrong).fit(X, C)
        with raises(ValueError, "Underlying estimator near does not implement the method",
                    "decision_function", "KNeighborsClassifier"):  # fmt: skip
            members = [("near", KNeighborsClassifier())]
            StackingClassifier(members, stack_method="decision_function").fit(X, C)
        with raises(
            ValueError, "Underlying estimator p does not implement the method predict_prob"
        ):
            StackingClassifier([("p", Perceptron())], stack_method="predict_proba").fit(X, C)

    @both
    def test_final_estimator(self, cls, members, X, y):
        for wrong in (3, Ridge, "ridge"):
            with raises(TypeError, "final_estimator must be None or an object with a method fit"):
                cls(members, wrong).fit(X, y)
        other = Ridge() if cls is StackingClassifier else GaussianNB()
        kind = "classifier" if cls is StackingClassifier else "regressor"
        with raises(ValueError, f"'final_estimator' parameter should be a {kind}. Got"):
            cls(members, other).fit(X, y)

    def test_a_meta_model_without_probabilities(self):
        model = StackingClassifier(CLASSIFIERS, Perceptron()).fit(X, C)
        with raises(AttributeError, "has no attribute 'predict_proba'") as raised:
            model.predict_proba(X)
        assert "'Perceptron' object has no attribute 'predict_proba'" in str(raised.value.__cause__)

    @both
    def test_names(self, cls, members, X, y):
        one = members[0][1]
        with raises(ValueError, "Names provided are not unique: ['a']"):
            cls([("a", one), ("a", one)]).fit(X, y)
        with raises(ValueError, "conflict with constructor arguments: ['cv']"):
            cls([("cv", one)]).fit(X, y)
        with raises(ValueError, "Invalid 'estimators' attribute"):
            cls([]).fit(X, y)
        with raises(ValueError, "All estimators are dropped"):
            cls([("a", "drop")]).fit(X, y)

    def test_kinds_of_members(self):
        with raises(ValueError, "The estimator GaussianNB should be a regressor: 'b' is not"):
            StackingRegressor([("b", GaussianNB())]).fit(XR, Y)
        with raises(
            ValueError, "Underlying estimator s does not implement the method predict_prob"
        ):
            StackingClassifier([("s", StandardScaler())]).fit(X, C)


class TestFolds:
    def test_a_fold_that_misses_a_class(self):
        order = np.argsort(C, kind="stable")
        with raises(ValueError, "The rows to fit on in fold 0 of cv miss the class(es) [0]",
                    "StratifiedKFold"):  # fmt: skip
            StackingClassifier(CLASSIFIERS, cv=KFold(3)).fit(X[order], C[order])
        pairs = [(np.arange(178), np.flatnonzero(C > 0))]
        with raises(ValueError, "The rows that the folds of cv predict miss the class(es) ['a']"):
            with pytest.warns(UserWarning, match="in no fold"):
                StackingClassifier(CLASSIFIERS, cv=pairs).fit(X, np.array(["a", "b", "c"])[C])

    def test_a_class_of_one_row(self):
        y = np.where(np.arange(178) == 7, 9, C)
        with pytest.warns(UserWarning, match="least populated class"):
            with raises(ValueError, "to fit on in fold 3 of cv miss the class(es) [9]",
                        "y holds [1] time(s)"):  # fmt: skip
                StackingClassifier(CLASSIFIERS).fit(X, y)
        with raises(ValueError, "held out miss the class(es) [9]"):
            StackingClassifier(CLASSIFIERS, cv="holdout").fit(X, y)

    @both
    def test_wrong_rows(self, cls, members, X, y):
        n = len(y)
        half, rest = np.arange(0, n, 2), np.arange(1, n, 2)
        with raises(ValueError, "cv has no rows to predict in fold 1"):
            cls(members, cv=[(half, rest), (rest, [])]).fit(X, y)
        with raises(ValueError, "cv has no rows to fit on in fold 0"):
            cls(members, cv=[([], rest)]).fit(X, y)
        with raises(ValueError, f"rows to predict from 0 to {n} in fold 0, X has {n}"):
            cls(members, cv=[(half, [0, n])]).fit(X, y)
        with raises(ValueError, "rows to fit on from -1 to"):
            cls(members, cv=[([-1, 5], rest)]).fit(X, y)

    @both
    def test_groups(self, cls, members, X, y):
        with raises(ValueError, "groups"):
            cls(members, cv=GroupKFold(3)).fit(X, y)
        with raises(ValueError, f"groups must hold one group for each of the {len(y)} rows"):
            cls(members, cv=GroupKFold(3)).fit(X, y, groups=y[1:])
        with raises(ValueError, "groups are for splitters, but cv is 'holdout'"):
            cls(members, cv="holdout").fit(X, y, groups=y)
        with raises(ValueError, "groups are for splitters, but cv is 'prefit'"):
            cls(members, cv="prefit").fit(X, y, groups=y)

    def test_nothing_left_to_fit_on(self):
        with raises(ValueError, "cv=0.999 of 5 rows cannot be held out"):
            StackingRegressor(REGRESSORS, cv=0.999).fit(XR[:5], Y[:5])

    def test_time_with_classes(self):
        """Early rows hold one class only."""
        order = np.argsort(C, kind="stable")
        with pytest.warns(UserWarning, match="in no fold"):
            with raises(ValueError, "to fit on in fold 0 of cv miss the class(es) [1, 2]"):
                StackingClassifier(CLASSIFIERS, cv=TimeSeriesSplit(3)).fit(X[order], C[order])


class TestMembers:
    @both
    def test_members_that_are_not_fitted(self, cls, members, X, y):
        with raises(NotFittedError, f"The member {members[0][0]!r}", "FrozenEstimator"):
            cls(members, cv="prefit").fit(X, y)

    def test_prefit_members_that_disagree(self):
        first, second = GaussianNB().fit(X, C), GaussianNB().fit(X, C * 2)
        with raises(ValueError, "disagree in their classes: 'b' knows [0, 2, 4], 'a' knows [0, 1"):
            StackingClassifier([("a", first), ("b", second)], cv="prefit").fit(X, C)
        with raises(ValueError, "y holds the classes [9], which the members do not know"):
            StackingClassifier([("a", first)], cv="prefit").fit(X, np.where(C == 0, 9, C))
        narrow = GaussianNB().fit(X[:, 1:], C)
        with raises(ValueError, "The member 'b' was fitted on 3 features, X has 4"):
            StackingClassifier([("a", first), ("b", narrow)], cv="prefit").fit(X, C)

    def test_wrong_answers(self):
        class Narrow(NearestMean):
            def predict_proba(self, X):
                return np.ones((len(X), 2)) / 2

        with raises(ValueError, "'n' gives probabilities of shape (36, 2) for 36 rows and 3"):
            StackingClassifier([("n", Narrow())]).fit(X, C)

        class Short(Ridge):
            def predict(self, X):
                return super().predict(X)[1:]

        with raises(ValueError, "The member 's' gives 88 rows for 89 rows of X by predict"):
            StackingRegressor([("s", Short())]).fit(XR, Y)

        class Broken(Ridge):
            def predict(self, X):
                return super().predict(X) * np.nan

        with raises(ValueError, "The member 'b' predicts NaN or infinity by predict"):
            StackingRegressor([*REGRESSORS, ("b", Broken())]).fit(XR, Y)

    def test_weights_that_a_member_or_the_meta_model_does_not_take(self):
        weight = np.ones(len(C))
        with raises(TypeError, "estimator KNeighborsClassifier does not support sample weights",
                    "Drop 'near'"):  # fmt: skip
            StackingClassifier(CLASSIFIERS).fit(X, C, weight)
        pipe = make_pipeline(StandardScaler(), KNeighborsClassifier())
        for final in (KNeighborsClassifier(), pipe):
            with raises(TypeError, "KNeighborsClassifier does not support sample weights",
                        "final_estimator"):  # fmt: skip
                StackingClassifier(CLASSIFIERS[:1], final).fit(X, C, weight)

    @both
    def test_training_that_fails_leaves_the_stack_as_it_was(self, cls, members, X, y):
        model = cls(members).fit(X, y)
        before = model.predict(X)
        kind = ClassifierMixin if cls is StackingClassifier else RegressorMixin
        model.estimators = [*members, ("bad", type("Fails", (kind, FailsToFit), {})())]
        with raises(RuntimeError, "no luck"):
            model.fit(X[:, 1:], y)
        np.testing.assert_array_equal(model.predict(X), before)


class TestData:
    def test_labels_and_values(self):
        with raises(ValueError, "Unknown label type: continuous"):
            StackingClassifier(CLASSIFIERS).fit(XR, Y + 0.5)
        with raises(ValueError, "y must hold one label a row, or several as columns of zeros"):
            StackingClassifier(CLASSIFIERS).fit(X, np.stack([C, C], axis=1))
        with raises(ValueError, "NaN"):
            StackingRegressor(REGRESSORS).fit(XR, np.where(Y > 300, np.nan, Y))

    def test_one_class(self):
        with raises(ValueError, "y holds 1 class (0 in every row)"):
            StackingClassifier(CLASSIFIERS).fit(X, C * 0)

    @both
    def test_metadata_without_routing(self, cls, members, X, y):
        with raises(ValueError, "['tag'] are passed to", "enable_metadata_routing=True"):
            cls(members).fit(X, y, tag=3)

    def test_text_beside_the_predictions(self):
        frame = pd.DataFrame({"color": np.array(["a", "b", "c"])[C], "size": X[:, 0]})
        encoder = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression())
        with raises(ValueError, "X must hold numbers, but its column 'color'"):
            StackingClassifier([("encoded", encoder)], passthrough=True).fit(frame, C)
        with raises(ValueError, "passthrough=True needs an X of numbers", "passthrough=False"):
            rows = frame.to_numpy(object)
            StackingClassifier([("encoded", encoder)], passthrough=True).fit(rows, C)

    @both
    @pytest.mark.parametrize("table", [{0: 1.0}, "abc"], ids=["dict", "text"])
    def test_what_is_no_table(self, cls, members, X, y, table):
        with raises(TypeError, "X must be an array, a data frame or a list, got"):
            cls(members).fit(table, y)

    @both
    def test_a_view_of_memory(self, cls, members, X, y):
        rows = np.ascontiguousarray(X, float)
        np.testing.assert_array_equal(
            cls(members).fit(memoryview(rows), y).predict(rows),
            cls(members).fit(rows, y).predict(rows),
        )
