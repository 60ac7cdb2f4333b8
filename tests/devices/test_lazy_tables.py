"""What holds no data yet is refused wherever data goes in, and never computed in silence."""

from __future__ import annotations

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import is_classifier

import gpuens
from gpuens.inspection import partial_dependence, permutation_importance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X[:, 0] + 0.1 * X[:, 1]
C = (Y > 0).astype(np.int64)
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
TIMES = np.array([(True, abs(t) + 1.0) for t in Y], [("event", bool), ("time", float)])
DASK = "{} is a Dask {}, which may be larger than memory. Use the estimators of gpuens.dask"
COLLECT = "{0} is a LazyFrame, which holds no data yet: pass {0}.collect()"
TABLES = {
    "array": (da.from_array(X, chunks=(20, 3)), DASK.format("X", "Array")),
    "frame": (dd.from_pandas(FRAME, npartitions=2), DASK.format("X", "DataFrame")),
    "polars": (pl.LazyFrame(FRAME), COLLECT.format("X")),
}
TREE = gpuens.DecisionTreeRegressor(max_depth=2)
CLASSES = gpuens.DecisionTreeClassifier(max_depth=2)
ESTIMATORS = [
    gpuens.AdaBoostRegressor(n_estimators=2),
    gpuens.BaggingClassifier(n_estimators=2),
    gpuens.ConformalRegressor(TREE),
    gpuens.ConformalClassifier(CLASSES),
    CLASSES,
    gpuens.GradientBoostingRegressor(n_estimators=2),
    gpuens.GridSearchCV(TREE, {"max_depth": [1, 2]}, cv=2),
    gpuens.IsolationForest(n_estimators=2),
    gpuens.ObliqueRandomForestRegressor(n_estimators=2),
    gpuens.QuantileForestRegressor(n_estimators=2),
    gpuens.RandomForestClassifier(n_estimators=2),
    gpuens.RandomSurvivalForest(n_estimators=2),
    gpuens.StackingRegressor([("tree", TREE)], final_estimator=TREE),
    gpuens.StagewiseRegressor(n_estimators=2),
    gpuens.ThreeLearnerBoostingClassifier(),
    gpuens.VotingClassifier([("tree", CLASSES)]),
]
estimators = pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
ignored = pytest.mark.filterwarnings("ignore:.*the model is the first learner alone:UserWarning")


def target_of(estimator):
    if "Survival" in type(estimator).__name__:
        return TIMES
    return C if is_classifier(estimator) else Y


def refused(message, function, *args, **more):
    with pytest.raises(TypeError) as error:
        function(*args, **more)
    assert message in str(error.value)


@estimators
@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("device", ["auto", "cpu"])
@ignored
def test_tables(estimator, kind, device):
    table, message = TABLES[kind]
    if hasattr(estimator, "device"):
        estimator.set_params(device=device)
    refused(message, estimator.fit, table, target_of(estimator))
    refused(message, estimator.fit(X, target_of(estimator)).predict, table)


@estimators
def test_targets(estimator):
    if isinstance(estimator, gpuens.IsolationForest):
        pytest.skip("takes no target")
    y = da.from_array(target_of(estimator), chunks=20)
    refused(DASK.format("y", "Array"), estimator.fit, X, y)
    if y.dtype.names is None:
        series = dd.from_pandas(pd.Series(target_of(estimator)), npartitions=2)
        refused(DASK.format("y", "Series"), estimator.fit, X, series)
        refused(COLLECT.format("y"), estimator.fit, X, pl.LazyFrame({"y": Y}))


def test_weights_scores_and_questions():
    weight, y = da.ones(60, chunks=20), da.from_array(Y, chunks=20)
    of_y, of_weight = DASK.format("y", "Array"), DASK.format("sample_weight", "Array")
    model = gpuens.GradientBoostingRegressor(n_estimators=2)
    refused(of_weight, model.fit, X, Y, sample_weight=weight)
    refused("eval_set[0] y is a Dask Array", model.fit, X, Y, eval_set=[(X, y)])
    model.fit(X, Y)
    refused(of_y, model.score, X, y)
    refused(of_weight, model.score, X, Y, weight)
    refused(of_y, permutation_importance, model, X, y)
    classifier = gpuens.RandomForestClassifier(n_estimators=2).fit(X, C)
    refused(of_y, classifier.score, X, da.from_array(C, chunks=20))
    table, of_table = TABLES["array"]
    refused(of_table, permutation_importance, model, table, Y)
    refused(of_table, partial_dependence, model, table, [0])
    refused(of_table, model.predict, table, pred_contribs=True)
    refused(of_table, gpuens.GridSearchCV(TREE, {"max_depth": [1]}).fit, table, Y)


def test_times_in_two_columns():
    event, time = da.ones(60, chunks=20), da.from_array(TIMES["time"], chunks=20)
    forest = gpuens.RandomSurvivalForest(n_estimators=2)
    refused("y is a Dask Array", forest.fit, X, (event, time))


def test_what_is_computed_is_taken():
    expected = gpuens.GradientBoostingRegressor(n_estimators=2).fit(X, Y).predict(X)
    table, y = TABLES["array"][0], da.from_array(Y, chunks=20)
    model = gpuens.GradientBoostingRegressor(n_estimators=2).fit(table.compute(), y.compute())
    np.testing.assert_array_equal(model.predict(TABLES["polars"][0].collect().to_numpy()), expected)
