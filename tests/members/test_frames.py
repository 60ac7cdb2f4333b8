"""Data frames reach members that name their columns, or read categories from the types of these."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeRegressor as SklearnTree

import gpuens
from gpuens import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    StackingClassifier,
    StagewiseClassifier,
    StagewiseRegressor,
    ThreeLearnerBoostingClassifier,
    VotingClassifier,
    VotingRegressor,
)
from gpuens.diversity import member_predictions
from tests.support.errors import raises
from tests.support.lanes import few

N = 300
RNG = np.random.default_rng(0)
COLUMNS = {
    "size": RNG.normal(size=N),
    "color": RNG.choice(["blue", "green", "red"], N).tolist(),
    "shape": RNG.choice(["flat", "round"], N).tolist(),
}
Y = COLUMNS["size"] + 2.0 * (np.array(COLUMNS["color"]) == "red") + RNG.normal(scale=0.5, size=N)
C = np.where(Y > 0.5, "high", "low")
NUMBERS = np.column_stack([
    COLUMNS["size"], *(np.unique(COLUMNS[k], return_inverse=True)[1] for k in ("color", "shape"))
])  # fmt: skip
FRAMES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}

boosted = GradientBoostingRegressor(n_estimators=3)
tree = DecisionTreeRegressor(max_depth=3)
ENSEMBLES = [
    BaggingRegressor(DecisionTreeRegressor(), 30, oob_score=True),
    BaggingClassifier(DecisionTreeClassifier(), 30, oob_score=True, max_samples=50),
    BaggingRegressor(boosted, 20, oob_score=True),
    BaggingClassifier(GradientBoostingClassifier(n_estimators=3), 3, n_jobs=2),
    AdaBoostClassifier(GradientBoostingClassifier(n_estimators=3), n_estimators=3),
    AdaBoostRegressor(boosted, n_estimators=3),
    StagewiseRegressor(tree, n_estimators=4, subsample=0.7),
    StagewiseClassifier([tree, boosted], n_estimators=4),
    ThreeLearnerBoostingClassifier(DecisionTreeClassifier(max_depth=1)),
]


def with_categories(ensemble, columns):
    """Return an ensemble whose base learners have categorical features."""
    copy = clone(ensemble)
    several = copy.estimator if isinstance(copy.estimator, list) else [copy.estimator]
    for base in several:
        base.set_params(categorical_features=columns)
    return copy


@pytest.mark.parametrize("library", few([*FRAMES], "polars"))
@pytest.mark.parametrize("ensemble", ENSEMBLES, ids=lambda e: repr(e)[:60])
def test_text_is_what_its_numbers_are(ensemble, library):
    y = C if is_classifier(ensemble) else Y
    expected = with_categories(ensemble, [1, 2]).fit(NUMBERS, y)
    frame = FRAMES[library](COLUMNS)
    model = with_categories(ensemble, ["color", "shape"]).fit(frame, y)
    np.testing.assert_array_equal(model.predict(frame), expected.predict(NUMBERS))
    if getattr(ensemble, "oob_score", False):
        assert model.oob_score_ == expected.oob_score_


def test_rows_of_weight_zero_are_left_out_of_a_frame():
    frame, weight = pl.DataFrame(COLUMNS), (np.arange(N) % 3 > 0) * 1.0
    model = with_categories(ENSEMBLES[4], ["color", "shape"]).fit(frame, C, sample_weight=weight)
    some = model.fit(frame.filter(weight > 0), C[weight > 0])
    np.testing.assert_array_equal(model.predict(frame), some.predict(frame))


@pytest.mark.parametrize("base", [tree, boosted], ids=["batch", "one by one"])
@pytest.mark.parametrize("again", [False, True])
def test_columns_that_are_drawn(base, again):
    frame = pd.DataFrame(COLUMNS).astype({"color": "category", "shape": "category"})
    base = clone(base).set_params(categorical_features="from_dtype")
    settings = {"max_features": 1.0 if again else 0.7, "bootstrap_features": again}
    model = BaggingRegressor(base, 8, **settings).fit(frame, Y)
    assert {own.size for own in model.estimators_features_} == {3 if again else 2}
    answers = member_predictions(model, frame)
    np.testing.assert_allclose(answers.mean(axis=1), model.predict(frame))
    with_color = [bool(np.isin(1, own)) for own in model.estimators_features_]
    uses_text = [m.is_categorical_ is not None for m in model.estimators_]
    assert any(with_color) and all(np.array(uses_text) >= with_color)


def test_a_missing_category_alone_is_of_no_type():
    model = BaggingRegressor(clone(tree).set_params(categorical_features=["color"]))
    model.fit(pd.DataFrame(COLUMNS)[["size", "color"]], Y)
    row = {"size": [0.5], "color": [None]}
    np.testing.assert_array_equal(
        model.predict(pl.DataFrame(row)), model.predict(pd.DataFrame(row | {"color": ["none"]}))
    )


class TestNames:
    """Columns of numbers go on in a frame only if settings name them."""

    numbers = pd.DataFrame(NUMBERS, columns=list(COLUMNS))

    @pytest.mark.parametrize("name, by_name, by_position", [
        ("categorical_features", ["color"], [1]), ("monotonic_cst", {"size": 1}, [1, 0, 0]),
        ("interaction_cst", [{"size", "color"}], [{0, 1}]),
    ])  # fmt: skip
    def test_of_parameters(self, name, by_name, by_position):
        base = GradientBoostingRegressor(n_estimators=3)
        named = BaggingRegressor(clone(base).set_params(**{name: by_name}), 3)
        numbered = BaggingRegressor(clone(base).set_params(**{name: by_position}), 3)
        expected = numbered.fit(NUMBERS, Y).predict(NUMBERS)
        np.testing.assert_array_equal(named.fit(self.numbers, Y).predict(self.numbers), expected)
        assert not hasattr(numbered.fit(self.numbers, Y).estimators_[0], "feature_names_in_")

    def test_of_a_column_transformer(self):
        columns = make_column_transformer((OrdinalEncoder(), ["color"]), remainder="passthrough")
        model = BaggingRegressor(make_pipeline(columns, DecisionTreeRegressor()))
        assert model.fit(self.numbers, Y).score(self.numbers, Y) > 0.8

    @pytest.mark.parametrize("last", [
        [clone(boosted).set_params(categorical_features=["color"])],
        [make_column_transformer((OrdinalEncoder(), ["color"]), remainder="passthrough"), boosted],
    ], ids=["parameter", "transformer"])  # fmt: skip
    def test_of_a_later_step(self, last):
        keeps_names = StandardScaler().set_output(transform="pandas")
        model = BaggingRegressor(make_pipeline(keeps_names, *last), 3).fit(self.numbers, Y)
        assert model.predict(self.numbers).shape == (N,)

    def test_are_kept_in_a_file(self, tmp_path):
        frame = pd.DataFrame(COLUMNS)
        model = with_categories(ENSEMBLES[0], ["color", "shape"]).fit(frame, Y)
        model.save(tmp_path / "bag")
        read = gpuens.load(tmp_path / "bag")
        np.testing.assert_array_equal(read.predict(frame), model.predict(frame))


def test_columns_of_the_same_name():
    frame = pd.DataFrame(NUMBERS, columns=["size", "color", "color"])
    with raises(ValueError, "X has columns of the same name: ['color']"):
        BaggingRegressor(DecisionTreeRegressor()).fit(frame, Y)


@pytest.mark.parametrize("table", [{"size": [0.5]}, "size"], ids=["dict", "text"])
@pytest.mark.parametrize("base", [Ridge(), tree], ids=["foreign", "own"])
def test_what_is_no_table(base, table):
    model = BaggingRegressor(base, 2)
    with raises(TypeError, "X must be an array, a data frame or a list, got"):
        model.fit(table, Y)
    model.fit(NUMBERS, Y)
    with raises(TypeError, "X must be an array, a data frame or a list, got"):
        model.predict(table)


class Wants(RegressorMixin, BaseEstimator):
    """Takes frames of one type."""

    def __init__(self, frame=None, categorical_features="from_dtype"):
        self.frame = frame
        self.categorical_features = categorical_features

    def fit(self, X, y):
        assert type(X) is self.frame and X.shape[0] == len(y)
        self.mean_ = float(np.mean(y))
        return self

    def predict(self, X):
        assert type(X) is self.frame
        return np.full(X.shape[0], self.mean_)


class WantsWithWeights(Wants):
    def fit(self, X, y, sample_weight):
        return super().fit(X, y)


WITH_TYPES = {
    "pandas": pd.DataFrame(COLUMNS).astype({"color": "category"}),
    "polars": pl.DataFrame(COLUMNS).with_columns(pl.col("color").cast(pl.Categorical)),
    "pyarrow": pa.table(COLUMNS | {"color": pa.array(COLUMNS["color"]).dictionary_encode()}),
}


@pytest.mark.parametrize("library", WITH_TYPES)
@pytest.mark.parametrize("cls", [Wants, WantsWithWeights])
@pytest.mark.parametrize("again", [False, True])
def test_foreign_members_get_frames_of_the_library_of_x(library, cls, again):
    frame = WITH_TYPES[library]
    settings = {"max_features": 1.0 if again else 0.7, "bootstrap_features": again}
    base = cls(type(frame))
    model = BaggingRegressor(base, 8, max_samples=0.5, oob_score=True, **settings).fit(frame, Y)
    assert model.predict(frame).shape == (N,)
    assert any(np.unique(own).size < 3 for own in model.estimators_features_)


def first_column(X):
    return np.asarray(X[:, [0]], np.float64)


class TestArrays:
    """Members that neither name columns nor read their types get arrays, as of all frames."""

    BASES = {
        BaggingRegressor: boosted, AdaBoostRegressor: boosted, StagewiseRegressor: [tree, boosted],
        BaggingClassifier: GradientBoostingClassifier(n_estimators=3),
        AdaBoostClassifier: GradientBoostingClassifier(n_estimators=3),
        ThreeLearnerBoostingClassifier: GradientBoostingClassifier(n_estimators=3),
    }  # fmt: skip
    of_any_base = pytest.mark.parametrize("cls", BASES, ids=lambda cls: cls.__name__)

    @of_any_base
    def test_text_that_holds_numbers(self, cls):
        y = C if issubclass(cls, ClassifierMixin) else Y
        text = pd.DataFrame(NUMBERS).rename(columns=str).astype(str)
        expected = cls(self.BASES[cls]).fit(NUMBERS, y).predict(NUMBERS)
        np.testing.assert_array_equal(cls(self.BASES[cls]).fit(text, y).predict(text), expected)

    @pytest.mark.parametrize("cls", [
        BaggingRegressor, BaggingClassifier, AdaBoostRegressor, ThreeLearnerBoostingClassifier,
    ])  # fmt: skip
    @pytest.mark.parametrize("frame", [WITH_TYPES["pandas"], pl.DataFrame(COLUMNS)],
                             ids=["categories", "text"])  # fmt: skip
    @pytest.mark.parametrize("inside", [False, True], ids=["pipeline", "vote of pipelines"])
    def test_columns_that_are_taken_by_position(self, cls, frame, inside):
        classifies = issubclass(cls, ClassifierMixin)
        base = make_pipeline(FunctionTransformer(first_column), self.BASES[cls])
        if inside:
            base = (VotingClassifier if classifies else VotingRegressor)([("only", base)])
        y = C if classifies else Y
        assert cls(base).fit(frame, y).score(frame, y) > 0.1

    def test_of_objects_in_any_order(self):
        values = np.repeat(np.array([0.5, "0.5"], object), [150, 150])
        frame = pd.DataFrame({"size": COLUMNS["size"], "half": values})
        for table in (frame, frame[::-1]):
            model = BaggingRegressor(boosted, 3).fit(table, Y)
            assert not hasattr(model.estimators_[0], "feature_names_in_")

    @pytest.mark.parametrize("own", [tree, boosted], ids=["tree", "boosted"])
    @pytest.mark.parametrize("frame", [WITH_TYPES["pandas"], pl.DataFrame(COLUMNS)],
                             ids=["categories", "text"])  # fmt: skip
    def test_text_that_kinds_do_not_take(self, own, frame):
        kinds = [SklearnTree(max_depth=2), own]
        with raises(ValueError, "X has dtype object", "Name their columns in categorical_features"):
            StagewiseRegressor(kinds).fit(frame, Y)


class TestTypes:
    """Columns of categories reach members that read categories from types."""

    frame = pd.DataFrame(NUMBERS, columns=list(COLUMNS)).astype({"color": "category"})
    y = NUMBERS[:, 0] + 2.0 * (NUMBERS[:, 1] == 1)

    @pytest.mark.parametrize("base", [
        boosted, make_pipeline(boosted), make_pipeline("passthrough", boosted),
        VotingRegressor([("boosted", boosted)]), AdaBoostRegressor(boosted, n_estimators=1),
    ], ids=["boosted", "pipeline", "pass", "vote", "adaboost"])  # fmt: skip
    def test_are_categories(self, base):
        by_type = BaggingRegressor(base, 3, random_state=0).fit(self.frame, self.y)
        numbers = clone(by_type).fit(NUMBERS, self.y).predict(NUMBERS)
        names = [n for n in base.get_params() if n.endswith("categorical_features")]
        by_position = clone(base).set_params(**dict.fromkeys(names, [1]))
        expected = BaggingRegressor(by_position, 3, random_state=0).fit(NUMBERS, self.y)
        np.testing.assert_array_equal(by_type.predict(self.frame), expected.predict(NUMBERS))
        assert not np.allclose(numbers, expected.predict(NUMBERS))

    @pytest.mark.parametrize("cls", [BaggingRegressor, StagewiseRegressor, AdaBoostRegressor])
    def test_are_read_by_members_of_no_setting(self, cls):
        frame = WITH_TYPES["polars"][["size", "color"]]
        assert cls(n_estimators=5).fit(frame, Y).score(frame, Y) > 0.1

    def test_models_of_before_read_numbers(self):
        model = BaggingRegressor(boosted, 3).fit(NUMBERS, Y)
        expected = model.predict(NUMBERS)
        del model._passes_frames
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that only X has names
            np.testing.assert_array_equal(model.predict(self.frame), expected)


def test_text_that_members_do_not_take():
    with raises(ValueError, "X has dtype object and holds values that are not numbers"):
        BaggingRegressor(boosted).fit(pd.DataFrame(COLUMNS), Y)
    base = GradientBoostingClassifier(n_estimators=3, categorical_features=["color", "shape"])
    stack = StackingClassifier([("boosted", base)], passthrough=True)
    with raises(ValueError, "passthrough=True needs an X of numbers", "column 'color'"):
        stack.fit(pd.DataFrame(COLUMNS), C)
