"""What a user of trees and forests can get wrong: each error names the argument, what it got and
what it wants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import is_classifier
from sklearn.exceptions import NotFittedError

from gpuens import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from tests.support.errors import changed, raises

NAN, INF = float("nan"), float("inf")
N = 40
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, 0] + X[:, 1]
C = (Y > 0).astype(int)
TREES = (DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier, ExtraTreeRegressor)
FORESTS = (
    RandomForestClassifier,
    RandomForestRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
)
CLASSIFIERS = tuple(cls for cls in TREES + FORESTS if is_classifier(cls()))
SOME = (DecisionTreeClassifier, ExtraTreeRegressor, RandomForestRegressor, ExtraTreesClassifier)
"""Of each base class, task and way of splitting: every pair of these has one."""
ALL = pytest.mark.parametrize("cls", SOME)
classifiers = pytest.mark.parametrize("cls", [DecisionTreeClassifier, ExtraTreesClassifier])
regressors = pytest.mark.parametrize("cls", [ExtraTreeRegressor, RandomForestRegressor])
forests = pytest.mark.parametrize("cls", [RandomForestRegressor, ExtraTreesClassifier])


def target(cls: type) -> np.ndarray:
    return C if cls in CLASSIFIERS else Y


def small(cls: type, **settings: Any) -> Any:
    return cls(**({"n_estimators": 2} if cls in FORESTS else {}) | settings)


COUNT = [0, -1, 1.5, "3", NAN, True, [1]]
PARAMETERS: dict[str, list[Any]] = {
    "splitter": ["worst", None, 1],
    "max_depth": COUNT,
    "max_leaf_nodes": [1, *COUNT],
    "min_samples_split": [0, 1, -1, 0.0, 1.1, "2", None, NAN, True],
    "min_samples_leaf": [0, -1, 0.0, 1.0, 1.5, "2", None, NAN, True],
    "min_weight_fraction_leaf": [-0.1, 0.51, NAN, "0", None, True],
    "max_features": [0, -1, 0.0, 1.1, -0.5, "auto", "all", NAN, True, [1]],
    "min_impurity_decrease": [-1e-9, INF, NAN, "0", None, True],
    "ccp_alpha": [-1e-9, INF, NAN, "0", None, True],
    "max_bins": [0, 1, 256, 10.0, "20", True],
    "n_estimators": [*COUNT, None],
    "max_samples": [0, -1, 0.0, float("inf"), "5", NAN, True],
    "bootstrap": [None, 1, "yes"],
    "oob_score": [None, 1, "accuracy"],
    "honest": [None, 1, "yes"],
    "warm_start": [None, 1, "yes"],
    "verbose": [-1, 1.5, "yes", None],
    "random_state": [-1, 2**32, 1.5, "0", NAN, np.random.default_rng(0)],
    "n_jobs": [0, 1.5, "2", True],
    "device": ["gpu", "cuda:x", 0, None],
    "class_weight": [
        "even", 3, [], [1, 2], {0: -1.0}, {0: NAN}, {0: INF}, {0: "much"}, [{0: 1}, "balanced"],
    ],
}  # fmt: skip
CASES = [(name, value) for name, values in PARAMETERS.items() for value in values]


class TestParameters:
    def test_every_parameter_has_its_cases(self):
        elsewhere = {"criterion", "monotonic_cst", "categorical_features"}
        names = {name for cls in TREES + FORESTS for name in cls().get_params()}
        assert names - elsewhere == set(PARAMETERS)

    @pytest.mark.parametrize("name, value", CASES, ids=[f"{n}={v!r:.30}" for n, v in CASES])
    def test_each(self, name, value):
        for cls in TREES + FORESTS:
            if name in cls().get_params():
                with raises(ValueError, name, "must be", f"got {value!r}"):
                    cls(**{name: value}).fit(X, target(cls))

    @pytest.mark.parametrize("criterion", ["mse", "friedman", None, 3, len, ["gini"]])
    @ALL
    def test_criterion(self, cls, criterion):
        known = "'gini', 'entropy'" if cls in CLASSIFIERS else "'squared_error', "
        with raises(ValueError, f"criterion must be {known}", f"got {criterion!r}"):
            cls(criterion=criterion).fit(X, target(cls))

    @ALL
    def test_criterion_of_the_other_kind(self, cls):
        other = "squared_error" if cls in CLASSIFIERS else "gini"
        with raises(ValueError, "criterion must be", f"got '{other}'"):
            cls(criterion=other).fit(X, target(cls))

    @regressors
    def test_a_deprecated_criterion(self, cls):
        with pytest.warns(FutureWarning, match="friedman_mse.*squared_error"):
            model = small(cls, criterion="friedman_mse").fit(X, Y)
        assert model.forest_.fingerprint() == small(cls).fit(X, Y).forest_.fingerprint()

    @pytest.mark.parametrize("settings", [
        {"max_depth": 10**12, "max_leaf_nodes": 10**12}, {"min_samples_leaf": 10**30},
        {"min_samples_split": 10**30}, {"min_samples_split": np.float32(0.5)},
        {"max_features": np.int8(2)}, {"max_features": np.float32(0.5)}, {"max_bins": np.int64(2)},
        {"random_state": np.random}, {"random_state": np.uint8(7)}, {"n_jobs": -(10**6)},
        {"min_weight_fraction_leaf": 0}, {"ccp_alpha": 10**300}, {"max_depth": 1},
        {"min_samples_split": 1.0}, {"min_samples_leaf": 0.5}, {"max_leaf_nodes": 2},
        {"n_jobs": 64}, {"min_weight_fraction_leaf": 0.5},
    ], ids=str)  # fmt: skip
    @ALL
    def test_unusual_but_fine(self, cls, settings):
        model = small(cls, **settings).fit(X, target(cls))
        assert np.isfinite(model.predict(X)).all()

    @pytest.mark.parametrize("settings", [
        {"oob_score": np.True_, "bootstrap": np.True_, "n_estimators": 40}, {"verbose": False},
        {"warm_start": np.False_}, {"n_estimators": np.int32(2)},
    ], ids=str)  # fmt: skip
    @forests
    def test_unusual_but_fine_forests(self, cls, settings):
        assert np.isfinite(small(cls, **settings).fit(X, target(cls)).predict(X)).all()

    @ALL
    def test_nothing_happens_at_construction(self, cls):
        known = cls().get_params()
        wrong = {name: values[0] for name, values in PARAMETERS.items() if name in known}
        assert cls(**wrong).get_params().items() >= wrong.items()

    @pytest.mark.parametrize("max_features", [4, 10**9])
    @ALL
    def test_more_features_than_there_are(self, cls, max_features):
        with raises(ValueError, f"max_features={max_features} is more than the 3 features",
                    "at most"):  # fmt: skip
            cls(max_features=max_features).fit(X, target(cls))


class TestForestParameters:
    @forests
    def test_out_of_bag_without_bags(self, cls):
        with raises(ValueError, "only available if bootstrap=True", "oob_score=True"):
            cls(bootstrap=False, oob_score=True).fit(X, target(cls))
        model = cls(2, bootstrap=False).fit(X, target(cls))
        with raises(ValueError, "Out-of-bag importances need bootstrap=True"):
            model.oob_permutation_importance(X, target(cls))

    @forests
    def test_max_samples(self, cls):
        with raises(ValueError, "max_samples=161 draws 161 of 40 rows"):
            cls(bootstrap=True, max_samples=161).fit(X, target(cls))
        with raises(ValueError, "`max_sample` cannot be set if `bootstrap=False`",
                    "max_samples=0.5"):  # fmt: skip
            cls(bootstrap=False, max_samples=0.5).fit(X, target(cls))

    @forests
    def test_fewer_trees_than_there_are(self, cls):
        model = cls(3, warm_start=True).fit(X, target(cls))
        with raises(ValueError, "n_estimators=2 must be larger or equal to the 3 trees"):
            model.set_params(n_estimators=2).fit(X, target(cls))

    @forests
    def test_a_warm_start_with_other_features(self, cls):
        y = target(cls)
        model = cls(2, warm_start=True).fit(X, y).set_params(n_estimators=4)
        with raises(ValueError, "X has 2 features", "know 3", "warm_start=False"):
            model.fit(X[:, :2], y)
        assert len(model) == 2 and model.n_features_in_ == 3
        assert len(model.fit(X, y)) == 4

    @pytest.mark.parametrize("labels", [C + 1, np.arange(N) % 3, np.array(["a", "b"])[C]])
    @pytest.mark.parametrize("cls", [RandomForestClassifier, ExtraTreesClassifier])
    def test_a_warm_start_with_other_classes(self, cls, labels):
        model = cls(2, warm_start=True).fit(X, C).set_params(n_estimators=4)
        with raises(ValueError, "y has the classes", "know [0 1]", "warm_start=False"):
            model.fit(X, labels)
        assert model.classes_.tolist() == [0, 1]

    def test_a_warm_start_with_other_outputs(self):
        model = RandomForestRegressor(2, warm_start=True).fit(X, Y).set_params(n_estimators=4)
        with raises(ValueError, "y has 2 outputs", "predict 1", "warm_start=False"):
            model.fit(X, np.stack([Y, Y], axis=1))

    def test_a_warm_start_with_other_categories(self):
        c = np.arange(N)[:, None] % 4
        model = RandomForestRegressor(2, warm_start=True, categorical_features=[0]).fit(c, Y)
        for other in (c + 1, c % 3):
            with raises(ValueError, "X has other categories", "warm_start=False"):
                model.set_params(n_estimators=4).fit(other, Y)

    @forests
    def test_importances_of_other_data(self, cls):
        y = target(cls)
        model = cls(2, bootstrap=True).fit(X, y)
        with raises(ValueError, "X has 39 rows, the forest was fitted with 40", "training data"):
            model.oob_permutation_importance(X[1:], y[1:])
        with raises(ValueError, "y has 39 values, X has 40 rows"):
            model.oob_permutation_importance(X, y[1:])
        with raises(ValueError, "y has 2 outputs, the model was fitted with 1"):
            model.oob_permutation_importance(X, np.stack([y, y], axis=1))
        with raises(ValueError, "sample_weight must hold one weight for each of the 40 rows"):
            model.oob_permutation_importance(X, y, sample_weight=np.ones(3))
        for n_repeats in (0, -1, 1.5, "2"):
            with raises(ValueError, f"n_repeats must be an integer >= 1, got {n_repeats!r}"):
                model.oob_permutation_importance(X, y, n_repeats=n_repeats)
        if cls in CLASSIFIERS:
            with raises(ValueError, "y has classes that the forest does not know"):
                model.oob_permutation_importance(X, y + 1)


class TestTarget:
    @ALL
    def test_shape(self, cls):
        y = target(cls)
        with raises(ValueError, "y has the shape (40, 0), without a single output"):
            small(cls).fit(X, np.empty((N, 0)))
        with raises(ValueError, "dim 3"):
            small(cls).fit(X, np.zeros((N, 2, 2), int))
        with raises(ValueError, "y should be a 1d array, got an array of shape ()"):
            small(cls).fit(X, y[0])

    @regressors
    def test_poisson(self, cls):
        model = small(cls, criterion="poisson")
        with raises(ValueError, "Some value(s) of y are negative", "the smallest is -"):
            model.fit(X, Y)
        with raises(ValueError, "Sum of y is not strictly positive"):
            model.fit(X, np.zeros(N))
        with raises(ValueError, "Sum of y is not strictly positive"):
            model.fit(X, np.stack([np.abs(Y), np.zeros(N)], axis=1))

    @pytest.mark.parametrize("scale", [1e150, 1e300])
    @regressors
    def test_too_large_to_be_squared(self, cls, scale):
        with raises(ValueError, "y has values that are", "squares do not fit", "divide y"):
            small(cls).fit(X, Y * scale)


class TestWeights:
    @ALL
    def test_no_finite_sum(self, cls):
        with raises(ValueError, "weights of the rows, up to 1e+308", "divide them"):
            small(cls).fit(X, target(cls), np.full(N, 1e308))

    @classifiers
    def test_class_weight(self, cls):
        with raises(ValueError, "classes, [1], are not in class_weight"):
            small(cls, class_weight={0: 1.0, 7: 2.0}).fit(X, C)
        with raises(ValueError, "class_weight gives every row a weight of zero"):
            small(cls, class_weight={0: 0, 1: 0}).fit(X, C)
        with raises(ValueError, "class_weight is a list of 1, but y has one output", "dict"):
            small(cls, class_weight=[{0: 1, 1: 1}]).fit(X, C)
        two = np.stack([C, C], axis=1)
        with raises(ValueError, "class_weight should match number of outputs", "1", "2 outputs"):
            small(cls, class_weight=[{0: 1, 1: 1}]).fit(X, two)
        with raises(ValueError, "class_weight should be a list of dicts"):
            small(cls, class_weight={0: 1, 1: 1}).fit(X, two)

    @pytest.mark.parametrize("cls", [DecisionTreeClassifier, ExtraTreeClassifier])
    def test_a_tree_has_no_samples_to_balance(self, cls):
        with raises(ValueError, "class_weight must be", "got 'balanced_subsample'"):
            cls(class_weight="balanced_subsample").fit(X, C)


class TestConstraints:
    @pytest.mark.parametrize("constraints, parts", [
        ([1, 0], ("monotonic_cst has shape 2 but the input data X has 3 features",)),
        ([1, 0, 0, 0], ("monotonic_cst has shape 4 but the input data X has 3 features",)),
        ([1, 0, 2], ("monotonic_cst must be None or", "-1, 0 or 1", "got [0, 1, 2]")),
        ([1, 0, 0.5], ("monotonic_cst must be None or", "-1, 0 or 1", "got [", "0.5")),
        (["up", "up", "up"], ("monotonic_cst must be None or", "got [up]")),
        ([[1, 0, 0]], ("monotonic_cst must be None or", "[[1, 0, 0]]")),
        ({"a": 1}, ("monotonic_cst must be None or", "{'a': 1}")),
        (1, ("monotonic_cst must be None or", "got 1")),
    ], ids=str)  # fmt: skip
    @ALL
    def test_monotone(self, cls, constraints, parts):
        with raises(ValueError, *parts):
            small(cls, monotonic_cst=constraints).fit(X, target(cls))

    @ALL
    def test_monotone_with_several_outputs(self, cls):
        y = np.stack([target(cls)] * 2, axis=1)
        with raises(ValueError, "not supported with multiple outputs", "monotonic_cst=None"):
            small(cls, monotonic_cst=[1, 0, 0]).fit(X, y)

    @classifiers
    def test_monotone_with_several_classes(self, cls):
        with raises(ValueError, "not supported with multiclass", "3 classes", "monotonic_cst=None"):
            small(cls, monotonic_cst=[1, 0, 0]).fit(X, np.arange(N) % 3)

    @ALL
    def test_monotone_categories(self, cls):
        model = small(cls, monotonic_cst=[0, -1, 0], categorical_features=[1])
        with raises(ValueError, "monotonic_cst constrains feature 1, whose categories have no"):
            model.fit(np.round(X), target(cls))

    @pytest.mark.parametrize("categorical, parts", [
        ([3], ("categorical_features must hold positions from 0 to 2", "[3]")),
        ([True, False], ("categorical_features is a mask of 2 values, but X has 3 features",)),
        (["a"], ("categorical_features names ['a'], but X is not a data frame",)),
        ([0, 0], ("categorical_features names a feature more than once: [0, 0]",)),
        ("all", ("categorical_features must be None, 'from_dtype', or a list", "'all'")),
        (1.5, ("categorical_features must be None", "1.5")),
    ], ids=str)  # fmt: skip
    @ALL
    def test_categorical_features(self, cls, categorical, parts):
        with raises(ValueError, *parts):
            small(cls, categorical_features=categorical).fit(X, target(cls))

    @ALL
    def test_too_many_categories(self, cls):
        table = np.arange(2**16 + 1.0)[:, None]
        with raises(ValueError, "X's feature 0 has 65537 distinct values", "it can have 65536"):
            small(cls, categorical_features=[0]).fit(table, np.zeros(len(table), int))

    def test_text_where_training_had_numbers(self):
        frame = pd.DataFrame({"a": [1, 2, 1, 2]})
        model = DecisionTreeRegressor(categorical_features=["a"]).fit(frame, [1.0, 2.0, 1.0, 2.0])
        with raises(ValueError, "X's column 'a' holds strings, but in fit it held numbers"):
            model.predict(frame.astype(str))


@pytest.mark.parametrize("cls", TREES)
class TestPruning:
    def test_other_data(self, cls):
        y = target(cls)
        model = cls().fit(X, y)
        with raises(ValueError, "features, but", "is expecting 3"):
            model.prune(X[:, :2], y)
        with raises(ValueError, "y_val has 2 outputs, the model was fitted with 1"):
            model.prune(X, np.stack([y, y], axis=1))
        with raises(ValueError, "y_val has 3 values, X has 40 rows"):
            model.prune(X, y[:3])
        with raises(ValueError, "requires y_val to be passed"):
            model.prune(X, None)
        with raises(ValueError, "sample_weight must hold one weight for each of the 40 rows"):
            model.prune(X, y, np.ones(3))
        with raises(NotFittedError, "is not fitted yet"):
            cls().prune(X, y)
        assert model.forest_.fingerprint() == cls().fit(X, y).forest_.fingerprint()

    def test_targets(self, cls):
        y = target(cls)
        model = cls().fit(X, y)
        if cls in CLASSIFIERS:  # what the tree does not know is wrong in every leaf
            assert cls().fit(X, y).prune(X, y + 5).get_n_leaves() == 1
            for text in (np.array(["a", "b"])[C], np.array(["a", "b"], object)[C]):
                with raises(ValueError, "y_val holds labels such as 'a'", "labels of the type"):
                    model.prune(X, text)
                with raises(ValueError, "y_val holds labels such as 0", "labels of the type"):
                    cls().fit(X, text).prune(X, C)
            return
        with raises(ValueError, "Input y_val contains NaN"):
            model.prune(X, changed(y, 0, NAN))
        with raises(ValueError, "y_val must hold numbers"):
            model.prune(X, np.array(["a", "b"])[C])
        counts = cls(criterion="poisson").fit(X, np.abs(Y))
        with raises(ValueError, "y_val has negative values", "the smallest is -"):
            counts.prune(X, Y)
