"""Models of a GPU and of the CPU, which must be the same to the last bit.

Real tables where their folder exists, generated ones of the same kind elsewhere. A model is
identified by the fingerprint of its forest, one without a forest by the bits of its weights and
predictions; predictions are compared besides.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import gpuens
from gpuens import losses
from gpuens.datasets import make_covtype_like, make_friedman1, make_higgs_like

from ..common import tables
from ..common.markdown import pivot
from ..common.peers import GapError
from ..common.places import place_of
from ..common.program import Content, Options, Program, Results

COMPARED_ROWS = 2000
OF_ADULT = [1, 3, 5, 6, 7, 8, 9, 13]
"""The categorical columns of adult."""


@dataclass(frozen=True)
class Model:
    """A model to fit: a table, an estimator by its class, its parameters."""

    table: str
    cls: str
    parameters: dict[str, Any] = field(default_factory=dict)
    weighted: bool = False
    missing: bool = False


def boosted(table: str, **parameters: Any) -> Model:
    """Return gradient boosting of 20 rounds."""
    kind = "Regressor" if table == "california_housing" else "Classifier"
    return Model(table, f"GradientBoosting{kind}", {"n_estimators": 20, **parameters})


HOUSES, ADULT, COVER, LETTER = "california_housing", "adult", "covtype_first20k", "letter"
EIGHT = [1, 0, 0, -1, 0, 0, 0, 0]

_ALL: dict[str, Model] = {
    **{
        f"boosting, {loss}": boosted(HOUSES, loss=loss)
        for loss in ("squared_error", "absolute_error", "huber", "poisson", "gamma", "tweedie")
    },
    "boosting, quantile": boosted(HOUSES, loss="quantile", quantile=0.9),
    "boosting, two quantiles": boosted(HOUSES, loss="quantile", quantile=[0.1, 0.9]),
    "boosting, log loss": boosted(ADULT),
    "boosting, exponential": boosted(ADULT, loss="exponential"),
    "boosting, focal": boosted(ADULT, loss=losses.Focal(1.5)),
    "boosting, 7 classes": boosted(COVER),
    "boosting, 26 classes": boosted(LETTER, n_estimators=8),
    "boosting, depth 8": boosted(ADULT, max_depth=8, max_leaf_nodes=None),
    "boosting, 255 leaves": boosted(COVER, max_leaf_nodes=255, n_estimators=6),
    "boosting, 15 bins": boosted(HOUSES, max_bins=15),
    "boosting, weights, missing": Model(
        HOUSES, "GradientBoostingRegressor", {"n_estimators": 20}, weighted=True, missing=True
    ),
    "boosting, subsample": boosted(ADULT, subsample=0.6),
    "boosting, goss": boosted(ADULT, sampling="goss"),
    "boosting, mvs": boosted(ADULT, sampling="mvs", subsample=0.5),
    "boosting, balanced": boosted(COVER, sampling="balanced", subsample=0.5),
    "boosting, sampled features": boosted(
        COVER, colsample_bytree=0.7, colsample_bylevel=0.7, colsample_bynode=0.7, n_estimators=8
    ),
    "boosting, monotone": boosted(HOUSES, monotonic_cst=EIGHT),
    "boosting, interactions": boosted(HOUSES, interaction_cst=[{0, 1, 2}, {3, 4}, {5, 6, 7}]),
    "boosting, both": boosted(
        HOUSES, monotonic_cst=EIGHT, interaction_cst=[{0, 1, 2, 3}, {4, 5, 6, 7}], subsample=0.7
    ),
    "boosting, categories": boosted(ADULT, categorical_features=OF_ADULT),
    "boosting, categories and sampling": boosted(
        ADULT, categorical_features=OF_ADULT, sampling="goss", colsample_bynode=0.5
    ),
    "boosting, line search": boosted(HOUSES, loss="huber", line_search=True),
    "boosting, early stopping": boosted(ADULT, early_stopping=True, n_iter_no_change=3),
    "tree": Model(HOUSES, "DecisionTreeRegressor"),
    "tree, categories": Model(
        ADULT, "DecisionTreeClassifier", {"max_depth": 10, "categorical_features": OF_ADULT}
    ),
    "forest": Model(COVER, "RandomForestClassifier", {"n_estimators": 10}),
    "forest, 26 classes": Model(
        LETTER, "RandomForestClassifier", {"n_estimators": 10, "max_depth": 12}, weighted=True
    ),
    "forest, regression": Model(HOUSES, "RandomForestRegressor", {"n_estimators": 10}),
    "extra trees": Model(COVER, "ExtraTreesClassifier", {"n_estimators": 10}),
    "extra trees, regression": Model(HOUSES, "ExtraTreesRegressor", {"n_estimators": 10}),
    "quantile forest": Model(HOUSES, "QuantileForestRegressor", {"n_estimators": 10}),
    "isolation forest": Model(HOUSES, "IsolationForest", {"n_estimators": 20}),
    "AdaBoost": Model(ADULT, "AdaBoostClassifier", {"n_estimators": 20}),
    "AdaBoost, 26 classes": Model(
        LETTER, "AdaBoostClassifier",
        {"n_estimators": 8, "estimator": gpuens.DecisionTreeClassifier(max_depth=8)},
    ),
    "AdaBoost, regression": Model(HOUSES, "AdaBoostRegressor", {"n_estimators": 10}),
    "bagging": Model(
        ADULT, "BaggingClassifier",
        {"n_estimators": 8, "estimator": gpuens.DecisionTreeClassifier(max_depth=8)},
    ),
    "bagging, regression": Model(HOUSES, "BaggingRegressor", {"n_estimators": 8}),
    "stagewise": Model(
        HOUSES, "StagewiseRegressor",
        {"n_estimators": 8, "estimator": gpuens.DecisionTreeRegressor(max_depth=4)},
    ),
    "three learners": Model(ADULT, "ThreeLearnerBoostingClassifier", {"random_state": 0}),
}  # fmt: skip
_FIRST = ("boosting, log loss", "boosting, squared_error", "boosting, 7 classes", "forest",
          "boosting, categories", "AdaBoost", "bagging", "tree", "boosting, monotone",
          "boosting, goss", "boosting, absolute_error", "forest, regression")  # fmt: skip
MODELS = {name: _ALL[name] for name in dict.fromkeys((*_FIRST, *_ALL))}
"""Everything that is compared, by its name in the table; one of each kind first."""
ROWS_OF_SLOW = {"three learners": 5000, "AdaBoost, regression": 5000, "stagewise": 5000}


def table_of(name: str, most: int | None) -> tuple[np.ndarray, np.ndarray, str]:
    """Return a table of the host, and where it is from."""
    try:
        found = tables.load_table(tables.DATA, name, most)
        return found.X.astype(np.float32), found.y, "real"
    except GapError:
        n = most or 20_000
        if name == HOUSES:
            X, y = make_friedman1(n, 8)
            return np.asarray(X, np.float32), np.asarray(y) + 20.0, "generated"
        if name in (COVER, LETTER):
            X, y = make_covtype_like(n)
            return X, np.unique(y, return_inverse=True)[1], "generated"
        X, y = make_higgs_like(n, 14)
        for column in OF_ADULT:
            X[:, column] = np.abs(np.floor(X[:, column] * 2)) % 11
        return X, y, "generated"


def compare(options: Options, name: str) -> Results:
    """Fit one model on both devices, and compare."""
    place, model = place_of("cuda"), MODELS[name]
    most = min(options.rows, ROWS_OF_SLOW.get(name, 10**9))
    X, y, source = table_of(model.table, None if most >= 10**9 else most)
    if options.tiny and model.table in (COVER, LETTER):
        X, y = np.ascontiguousarray(X[:, :8]), y % 4
    rng = np.random.default_rng(0)
    if model.missing:
        X = X.copy()
        X[rng.random(X.shape) < 0.05] = np.nan
    if model.table == HOUSES:
        y = y.astype(np.float64)
    weight = rng.exponential(size=y.size) * (np.arange(y.size) % 7 > 0) if model.weighted else None
    marks, predictions = {}, {}
    for device in ("cpu", place.device):
        fitted, data = built(options, model, device), (X, y, weight)
        if device != "cpu" and model.cls != "ThreeLearnerBoostingClassifier":
            data = tuple(None if a is None else place.put(a) for a in data)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of models that are made small here
            fitted.fit(*(a for a in data if a is not None))
            predictions[device] = place.get(fitted.predict(data[0][:COMPARED_ROWS]))
        marks[device] = fingerprint(fitted, predictions[device])
    same = predictions["cpu"].tobytes() == predictions[place.device].tobytes()
    return {
        "table": model.table, "source": source, "n_rows": X.shape[0], "fingerprints": marks,
        "equal": {"model": len(set(marks.values())) == 1, "predictions": same},
    }  # fmt: skip


def built(options: Options, model: Model, device: str) -> Any:
    """Return an estimator, not fitted."""
    made = getattr(gpuens, model.cls)(**model.parameters)
    known = made.get_params(deep=False)
    shared = {"random_state": 0, "n_jobs": options.threads, "device": device}
    shared = {name: value for name, value in shared.items() if name in known}
    if options.tiny:
        small = {"n_estimators": 2, "max_leaf_nodes": 6}
        shared |= {name: value for name, value in small.items() if known.get(name)}
    return made.set_params(**shared)


def fingerprint(fitted: Any, prediction: np.ndarray) -> str:
    """Return a text that is equal for identical models only."""
    if hasattr(fitted, "forest_"):
        return str(fitted.forest_.fingerprint())
    digest = hashlib.sha256(np.ascontiguousarray(prediction).tobytes())
    for name in ("estimator_weights_", "estimator_errors_"):
        if hasattr(fitted, name):
            value = getattr(fitted, name)
            value = value.get() if hasattr(value, "get") else value
            digest.update(np.ascontiguousarray(value, np.float64).tobytes())
    return digest.hexdigest()


def show(content: Content) -> Iterator[str]:
    """Yield what was compared."""
    yield pivot("models of the GPU and of the CPU", {
        name: {
            "table": f"{row['table']} ({row['source']})", "rows": f"{row['n_rows']:,}",
            **{what: "same" if same else "**DIFFERENT**" for what, same in row["equal"].items()},
        }
        for name, row in content["results"].items() if "equal" in row
    })  # fmt: skip


PROGRAM = Program(
    "gpu_models", __doc__, {name: partial(compare, name=name) for name in MODELS},
    {
        "rows": (10**9, "most rows of a table"),
        "threads": (2, "threads of the CPU"),
        "tiny": (False, "two trees of six leaves"),
    },
    show, on_gpu=True,
)  # fmt: skip
main = PROGRAM.main
