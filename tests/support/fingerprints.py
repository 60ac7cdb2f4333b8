"""Fingerprints of small models of every kind, to compare models before and after a change.

Every configuration in ``CASES`` is fitted to a small table, and what comes of it is hashed: the
trees, what the model predicts, and what it learned besides. A change that should leave all models
as they are leaves all fingerprints as they are, whatever the number of threads::

    python -m tests.support.fingerprints before.json
    python -m tests.support.fingerprints after.json

A fingerprint is "trees:values", so that it tells whether the trees differ or only what is made of
them. A configuration that fails has the name of its error instead. The names that begin with
"lbfgs-dependent/" are of stacks whose logistic meta-model has so many parameters that its Hessian
is not formed (once it was found by L-BFGS): its last bits change with the optimiser.

Only methods and attributes named here are hashed, so those that a class gets later do no harm.
"""

from __future__ import annotations

import functools
import hashlib
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier as TheirClassifier
from sklearn.tree import DecisionTreeRegressor as TheirRegressor

import gpuens
from gpuens import BinnedTable, losses
from tests.support.streaming import streaming

N_FIT, N = 240, 320
"""Rows that models are fitted to, and rows that they are asked about."""

SAVED = Path(__file__).resolve().parents[1] / "saved" / "format-1"
BOOSTING = "GradientBoosting"

STAGED = "staged_predict staged_predict_proba staged_decision_function"
ANSWERS = f"predict predict_proba decision_function {STAGED}"
PROGRESS = "n_iter_ evals_result_ train_score_ validation_score_ stopped_ classes_"
OUT_OF_BAG = "oob_score_ oob_scores_path_ oob_decision_function_ oob_prediction_"
SAMPLES = "estimators_samples_ estimators_features_ classes_"
CURVES = "predict_survival_function unique_times_"
WATCHED = {
    "GradientBoosting": f"{ANSWERS} {CURVES} apply {PROGRESS} is_categorical_",
    "Tuned": "predict predict_proba best_params_ best_score_",
    "Stagewise": f"{ANSWERS} {PROGRESS} estimator_weights_ learning_rates_",
    "AdaBoost": f"{ANSWERS} estimator_weights_ estimator_errors_ feature_importances_ stopped_",
    "ThreeLearner": f"predict decision_function {SAMPLES}",
    "DecisionTree": "predict predict_proba apply decision_path feature_importances_ classes_",
    "ExtraTree": f"predict predict_proba apply feature_importances_ {OUT_OF_BAG} classes_",
    "RandomForest": f"predict predict_proba apply feature_importances_ {OUT_OF_BAG} {SAMPLES}",
    "ObliqueRandomForest": f"predict predict_proba apply feature_importances_ {OUT_OF_BAG}",
    "RandomSurvivalForest": f"predict {CURVES} apply {OUT_OF_BAG} {SAMPLES}",
    "ExtraSurvivalTrees": f"predict {CURVES} apply {OUT_OF_BAG}",
    "QuantileForest": f"predict predict_interval feature_importances_ {OUT_OF_BAG}",
    "IsolationForest": f"predict decision_function score_samples offset_ {SAMPLES}",
    "Bagging": f"predict predict_proba decision_function {OUT_OF_BAG} {SAMPLES}",
    "Voting": "predict predict_proba transform weights_ classes_",
    "Stacking": "predict predict_proba decision_function transform stack_method_ classes_",
}
"""Methods and attributes to hash, by how the name of the class begins; those a model lacks, such as
probabilities of a regressor, are left out."""

NODES = """children_left children_right feature threshold missing_go_to_left value impurity
n_node_samples weighted_n_node_samples"""
PAIRWISE = "agreement cohen_kappa correlation disagreement double_fault q_statistic"
OF_ENSEMBLE = """coincident_failure_diversity difficulty entropy generalised_diversity
interrater_agreement kohavi_wolpert_variance"""
BIAS_VARIANCE = """error bias variance net_variance unbiased_variance biased_variance error_of_rows
bias_of_rows variance_of_rows net_variance_of_rows main_prediction test_rows n_predictions"""

CASES: dict[str, Callable[[], Any]] = {}
"""What makes the model or the numbers of each name."""


class Fitted(NamedTuple):
    """A fitted model and the rows to ask it about."""

    model: Any
    X: Any


class Rows(NamedTuple):
    """A table, its targets and weights, some of which are zero."""

    X: Any
    y: np.ndarray
    weight: np.ndarray


class Digest:
    """Hashes of trees and of values, in the order in which they come."""

    def __init__(self) -> None:
        self.trees, self.values = hashlib.sha256(), hashlib.sha256()

    def __str__(self) -> str:
        return f"{self.trees.hexdigest()[:24]}:{self.values.hexdigest()[:40]}"

    def add(self, value: Any) -> None:
        if isinstance(value, Fitted):
            self._add_model(value.model, value.X)
        elif value is None or isinstance(value, str):
            self.values.update(f"{value!r};".encode())
        elif isinstance(value, Mapping):
            for key in sorted(value):
                self.add(str(key))
                self.add(value[key])
        elif isinstance(value, (list, tuple)):
            self.values.update(f"{len(value)} items;".encode())
            for item in value:
                self.add(item)
        else:
            self._add_array(value.toarray() if hasattr(value, "toarray") else np.asarray(value))

    def _add_array(self, array: np.ndarray) -> None:
        self.values.update(f"{array.shape};".encode())
        if array.dtype.kind not in "biuf":
            self.values.update("\0".join(map(str, array.ravel().tolist())).encode())
            return
        numbers = np.array(array, dtype="<f8", order="C")
        numbers[np.isnan(numbers)] = np.nan  # one of the many NaNs that there are
        self.values.update(numbers.tobytes())

    def _add_model(self, model: Any, X: Any) -> None:
        name = type(model).__name__
        self._add_trees(model)
        for watched in next(w for start, w in WATCHED.items() if name.startswith(start)).split():
            if not hasattr(model, watched):
                continue
            found = getattr(model, watched)
            if callable(found):
                found = found(X)
                found = list(found) if watched.startswith("staged") else found
            self.add(watched)
            self.add(found)

    def _add_trees(self, model: Any) -> None:
        """The fingerprints of all trees of a model and its members."""
        if not type(model).__name__.startswith(("Bagging", "Voting", "Stacking", "Stagewise")):
            if hasattr(model, "forest_"):
                self.trees.update(model.forest_.fingerprint().encode())
                return
        for name in ("estimators_", "final_estimator_"):
            members = getattr(model, name, ())
            for member in members if isinstance(members, (list, tuple)) else [members]:
                self._add_trees(member)


@functools.cache
def rows_of(target: str, holes: bool = False) -> Rows:
    """A table of six features, the fourth with few values and the fifth of categories.

    Nothing but integers and the four arithmetic operations, so that it is the same everywhere.
    """
    rng = np.random.default_rng(0)
    X = rng.integers(-500, 500, (N, 6)) / 250.0
    X[:, 3] = rng.integers(0, 7, N)
    X[:, 4] = rng.integers(0, 9, N)
    effect = np.array([0.0, 1.5, -1.0, 0.25, 0.5, -0.75, 1.0, 0.0, -0.25])[X[:, 4].astype(int)]
    y = X[:, 0] + X[:, 1] * X[:, 2] + (X[:, 3] > 3) + effect + rng.integers(-200, 200, N) / 400.0
    targets = {
        "numbers": y,
        "outputs": np.stack([y, X[:, 1] - 0.5 * y], axis=1),
        "counts": np.floor(abs(y) * 2.0),
        "amounts": 0.25 + y * y,
        "claims": np.where(y < 0.3, 0.0, y * y),
        "two": np.where(y > 0.6, "yes", "no"),
        "three": np.digitize(y, [-0.4, 1.2]) * 10,
        "labels": np.stack([y > 0.6, np.digitize(X[:, 1] - y, [-1.0, 0.5])], axis=1).astype(int),
    }
    if holes:
        places = np.arange(N)[:, None] * 7919 + np.arange(6) * 104729
        X[places % 11 == 0] = np.nan
    return Rows(X, targets[target], (np.arange(N) * 37 % 11) / 4.0)


def first(target: str, holes: bool = False) -> Rows:
    """The rows that models are fitted to."""
    return Rows(*(part[:N_FIT] for part in rows_of(target, holes)))


def last(target: str, holes: bool = False) -> Rows:
    """The rows that they are not fitted to."""
    return Rows(*(part[N_FIT:] for part in rows_of(target, holes)))


def fit(
    cls: str, target: str, *, holes: bool = False, weighted: bool = False, **settings: Any
) -> Fitted:
    """A model fitted to the first rows, which is asked about all of them."""
    X, y, weight = first(target, holes)
    further = {"sample_weight": weight} if weighted else {}
    return Fitted(make(cls, **settings).fit(X, y, **further), rows_of(target, holes).X)


def make(cls: str, **settings: Any) -> Any:
    return getattr(gpuens, cls)(**settings)


def public(name: str, *modules: str) -> Any:
    """Something of the package by the first of these modules that has it: some have moved."""
    for module in modules:
        try:
            return getattr(import_module(f"{gpuens.__name__}.{module}"), name)
        except (AttributeError, ModuleNotFoundError):
            continue
    raise ImportError(f"None of the modules {modules} has {name}.")


def add(group: str, cls: str, target: str, cases: dict[str, dict[str, Any]], **shared: Any) -> None:
    """Name cases of ``fit``; their settings may also name another table."""
    for name, settings in cases.items():
        arguments = {"cls": cls, "target": target} | shared | settings
        CASES[f"{group}/{name}"] = functools.partial(fit, **arguments)


def case(name: str, *arguments: Any, **further: Any) -> Callable[[Any], Any]:
    """Name what a function makes, with these arguments."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[name] = functools.partial(function, *arguments, **further)
        return function

    return register


# Gradient boosting


def log_cosh(y, score):
    return losses.softplus(2.0 * (score - y)) - (score - y)


def log_cosh_slope(y, score):
    return 2.0 * losses.sigmoid(2.0 * (score - y)) - 1.0


def logistic(y, score):
    return losses.softplus(score) - losses.mul(y, score)


def logistic_slope(y, score):
    return losses.sigmoid(score) - y


def logistic_curvature(y, score):
    p = losses.sigmoid(score)
    return losses.mul(p, 1.0 - p)


def squared_arrays(y, score):
    return score - y, np.ones_like(y)


def falling_rate(index: int) -> float:
    return 0.5 / (1 + index)


DEPTHWISE = {"max_leaf_nodes": None, "max_depth": 4}
CATEGORIES = {"categorical_features": [4]}
add("boosting/regressor", f"{BOOSTING}Regressor", "numbers", {
    "squared": {},
    "absolute": {"loss": "absolute_error"},
    "huber": {"loss": "huber"},
    "huber object": {"loss": losses.Huber(alpha=0.7), "weighted": True},
    "quantile": {"loss": "quantile", "quantile": 0.8},
    "quantiles": {"loss": "quantile", "quantile": [0.1, 0.5, 0.9], "weighted": True},
    "poisson": {"loss": "poisson", "target": "counts"},
    "poisson bounded": {"loss": losses.Poisson(max_delta_step=0.7), "target": "counts"},
    "gamma": {"loss": "gamma", "target": "amounts"},
    "tweedie": {"loss": "tweedie", "target": "claims"},
    "tweedie object": {"loss": losses.Tweedie(power=1.2), "target": "claims", "weighted": True},
    "normal": {"loss": "normal", "holes": True, "weighted": True},
    "log normal": {"loss": "log_normal", "target": "amounts"},
    "student": {"loss": losses.StudentT(df=4.0)},
    "negative binomial": {"loss": "negative_binomial", "target": "counts"},
    "custom": {"loss": losses.CustomLoss(log_cosh, log_cosh_slope), "line_search": True},
    "array loss": {"loss": squared_arrays},
    "outputs": {"target": "outputs", "holes": True},
    "outputs absolute": {"target": "outputs", "loss": "absolute_error", "weighted": True},
    "holes": {"holes": True, "weighted": True},
    "depth-wise": DEPTHWISE | {"holes": True},
    "symmetric": {"grow_policy": "symmetric", "holes": True},
    "symmetric, rules": {
        "grow_policy": "symmetric", "max_depth": 4, "monotonic_cst": [1, -1, 0, 1, 0, 0],
        "interaction_cst": "pairwise",
    },
    "symmetric, categories": CATEGORIES | {"grow_policy": "symmetric", "weighted": True},
    "few leaves": {"max_leaf_nodes": 4, "min_samples_leaf": 3},
    "to purity": {"max_leaf_nodes": None, "min_samples_leaf": 1, "n_estimators": 2},
    "few bins": {"max_bins": 5, "holes": True},
    "regularised": {"l2_regularization": 7.5, "min_sum_hessian": 20.0, "min_gain_to_split": 0.5},
    "subsample": {"subsample": 0.6, "random_state": 5},
    "goss": {"sampling": "goss", "learning_rate": 0.5, "n_estimators": 6},
    "mvs": {"sampling": "mvs", "subsample": 0.5},
    "colsample bytree": {"colsample_bytree": 0.5},
    "colsample bylevel": {"colsample_bylevel": 0.5, "random_state": 2**32 - 1},
    "colsample bynode": {"colsample_bynode": 0.5, **DEPTHWISE},
    "all sampling": {"subsample": 0.7, "colsample_bytree": 0.8, "colsample_bylevel": 0.8,
                     "colsample_bynode": 0.8, "holes": True},
    "monotone": {"monotonic_cst": [1, 0, -1, 1, 0, 0], "holes": True},
    "monotone medians": {"monotonic_cst": [1, 0, 0, 1, 0, 0], "loss": "absolute_error"},
    "monotone depth-wise": {"monotonic_cst": [1, -1, 0, 1, 0, 0], **DEPTHWISE},
    "interactions": {"interaction_cst": [{0, 3}, {1, 2}], "min_samples_leaf": 5},
    "interactions pairwise": {"interaction_cst": "pairwise", **DEPTHWISE},
    "no interactions": {"interaction_cst": "no_interactions"},
    "categories": CATEGORIES | {"cat_smooth": 2.0},
    "categories one-hot": CATEGORIES | {"max_cat_to_onehot": 9, "holes": True},
    "categories shared bins": CATEGORIES | {"max_bins": 6, "cat_hash_groups": 3, "cat_smooth": 1.0,
                                            "cat_l2": 5.0},
    "line search": {"line_search": True, "loss": "poisson", "target": "counts"},
    "dropout": {"dropout": 0.4, "n_estimators": 12, "holes": True, "weighted": True},
    "dropout of outputs": {"dropout": 0.5, "normalize_drop": "forest", "target": "outputs"},
    "linear leaves": {"linear_leaves": True, "holes": True, "weighted": True},
    "one tree of outputs": {"multi_strategy": "multi_output_tree", "target": "outputs"},
    "linear leaves of outputs": {"linear_leaves": True, "linear_lambda": 0.1, "subsample": 0.7,
                                 "target": "outputs"},
    "linear leaves poisson": {"linear_leaves": True, "loss": "poisson", "target": "counts"},
    "rates": {"learning_rate": [0.5, 0.3, 0.2, 0.1, 0.05]},
    "rate of the round": {"learning_rate": falling_rate},
    "early stopping": {"early_stopping": True, "n_estimators": 60, "learning_rate": 0.7,
                       "n_iter_no_change": 3},
    "early stopping on training rows": {"early_stopping": True, "validation_fraction": None,
                                        "n_estimators": 30, "n_iter_no_change": 2, "tol": 0.05},
}, n_estimators=5)  # fmt: skip
add("boosting/classifier", f"{BOOSTING}Classifier", "three", {
    "binomial": {"target": "two", "holes": True},
    "multinomial": {"weighted": True},
    "exponential": {"loss": "exponential", "target": "two"},
    "focal": {"loss": "focal", "target": "two"},
    "focal three": {"loss": losses.Focal(gamma=1.0)},
    "custom": {"loss": losses.CustomLoss(logistic, logistic_slope, logistic_curvature)},
    "holes": {"holes": True, "weighted": True},
    "depth-wise": DEPTHWISE,
    "goss": {"sampling": "goss", "learning_rate": 0.5, "n_estimators": 6},
    "mvs": {"sampling": "mvs", "subsample": 0.5, "target": "two"},
    "balanced sampling": {"sampling": "balanced", "subsample": 0.5},
    "colsample": {"colsample_bytree": 0.7, "colsample_bynode": 0.6, "subsample": 0.8},
    "monotone": {"monotonic_cst": [1, 0, 0, 1, 0, 0], "target": "two"},
    "interactions": {"interaction_cst": "pairwise"},
    "categories": CATEGORIES | {"cat_smooth": 2.0, "holes": True},
    "line search": {"line_search": True},
    "line search binomial": {"line_search": True, "target": "two", "weighted": True},
    "dropout": CATEGORIES | {"dropout": 0.5, "skip_dropout": 0.2, "uniform_drop": False,
                             "max_drop": 2, "n_estimators": 12},
    "dropout, early stopping": {"dropout": 0.3, "early_stopping": True, "n_estimators": 60,
                                "learning_rate": 0.7, "n_iter_no_change": 3, "target": "two"},
    "linear leaves": CATEGORIES | {"linear_leaves": True, "holes": True},
    "linear leaves, early stopping": {"linear_leaves": True, "early_stopping": True,
                                      "n_estimators": 60, "learning_rate": 0.7,
                                      "n_iter_no_change": 3, "target": "two"},
    "one tree": {"multi_strategy": "multi_output_tree", "subsample": 0.7, "weighted": True},
    "class weights": {"class_weight": {0: 2.0, 10: 0.5, 20: 1.0}},
    "balanced": {"class_weight": "balanced", "target": "two", "weighted": True},
    "early stopping": {"early_stopping": True, "n_estimators": 60, "learning_rate": 0.7,
                       "n_iter_no_change": 3, "scoring": ["accuracy", "loss"]},
}, n_estimators=5)  # fmt: skip


@case("boosting/eval sets", {"scoring": ["loss", "r2"], "early_stopping": "auto"})
@case("boosting/eval sets keep all", {"early_stopping": True, "keep_best": False, "tol": 0.05})
def with_eval_sets(settings):
    further, other = last("numbers", True), first("numbers", False)
    model = make(f"{BOOSTING}Regressor", n_estimators=20, n_iter_no_change=3, **settings)
    sets = {"eval_set": [further[:2], other[:2]],
            "eval_sample_weight": [further.weight, other.weight]}  # fmt: skip
    return Fitted(model.fit(*first("numbers", True), **sets), rows_of("numbers", True).X)


@case("boosting/X_val")
def with_validation_rows():
    X, y, weight = last("three")
    model = make(f"{BOOSTING}Classifier", n_estimators=30, early_stopping=True, learning_rate=0.6)
    model.fit(*first("three")[:2], X_val=X, y_val=y, sample_weight_val=weight)
    return Fitted(model, X)


@case("boosting/init", f"{BOOSTING}Regressor", "numbers")
@case("boosting/init three classes", f"{BOOSTING}Classifier", "three")
def continued(cls, target):
    settings = {"n_estimators": 3, "subsample": 0.8}
    before, X = fit(cls, target, holes=True, **settings)
    return Fitted(make(cls, **settings).fit(*last(target, True), init=before), X)


@case(f"{BOOSTING}Regressor/sparse", f"{BOOSTING}Regressor", "numbers", max_leaf_nodes=8)
@case(f"{BOOSTING}Classifier/sparse", f"{BOOSTING}Classifier", "three", weighted=True)
def of_sparse_rows(cls, target, weighted=False, **settings):
    """More than nine of ten entries are absent, which growth leaves out."""
    X, y, weight = first(target)
    wide = np.tile(X, 4)
    wide[np.arange(wide.size).reshape(wide.shape) % 13 > 0] = 0.0
    model = make(cls, n_estimators=4, min_samples_leaf=3, **settings)
    return Fitted(model.fit(csr_array(wide), y, weight if weighted else None), wide)


@case(f"{BOOSTING}Regressor/streamed", f"{BOOSTING}Regressor", "numbers", min_samples_leaf=20)
@case(f"{BOOSTING}Classifier/streamed", f"{BOOSTING}Classifier", "three", **CATEGORIES)
def of_a_table_larger_than_memory(cls, target, **settings):
    """Growth reads the rows of a file in their order."""
    X, y, _ = first(target)
    binning = {key: settings[key] for key in CATEGORIES if key in settings}
    with TemporaryDirectory() as folder, streaming():
        path = Path(folder) / "table"
        table = BinnedTable.from_batches(lambda: iter([(X, y)]), path=path, **binning)
        return Fitted(make(cls, n_estimators=4, **settings).fit(table), X)


@case("ranking/lambdarank", scoring=["ndcg@3", "map"])
@case("ranking/xendcg", loss="xendcg", subsample=0.7)
@case("ranking/pairwise", loss="pairwise", sampling="goss", learning_rate=0.6)
@case("ranking/positions", position=np.arange(N_FIT) % 6, learning_rate=0.4)
def ranking(position=None, **settings):
    """The first queries are longer than the others, which have six documents."""
    (X, y, weight), group = first("three", True), [20] * 6 + [6] * 20
    model = make(f"{BOOSTING}Ranker", n_estimators=4, **settings)
    relevance = np.unique(y, return_inverse=True)[1]
    further = {"eval_set": (X, relevance), "eval_group": group, "position": position}
    return Fitted(model.fit(X, relevance, weight, group=group, **further), X)


def with_times():
    X, y, weight = first("numbers", True)
    return X, (np.arange(y.size) % 3 > 0, np.exp(y / np.abs(y).max()).round(1)), weight


@case("survival/cox", scoring=["loss", "concordance"])
@case("survival/cox breslow", loss=losses.Cox("breslow"), sampling="mvs", subsample=0.7)
@case("survival/aft normal", loss="aft", line_search=True)
@case("survival/aft logistic", loss=losses.AFT("logistic", 0.5), early_stopping=True)
@case("survival/aft extreme", loss=losses.AFT("extreme", 2.0), learning_rate=1.0)
@case("survival/aft intervals", loss="aft", intervals=True)
def survival(intervals=False, loss="cox", **settings):
    """Times have ties; a third of them is censored."""
    X, target, weight = with_times()
    time = target[1]
    if intervals:
        censored = np.arange(time.size) % 4
        lower = np.where(censored == 0, 0.0, time)
        upper = np.where(censored == 1, np.inf, time + (censored == 2))
        target = np.stack([lower, upper], axis=1)
    model = make(f"{BOOSTING}Regressor", loss=loss, n_estimators=4, **settings)
    return Fitted(model.fit(X, target, weight, eval_set=(X, target)), X)


@case("survival/forest", "RandomSurvivalForest", oob_score=True)
@case("survival/forest of pruned trees", "RandomSurvivalForest", ccp_alpha=1e-3, max_bins=None)
@case("survival/extra trees", "ExtraSurvivalTrees", max_depth=4)
def survival_forest(cls, **settings):
    X, target, weight = with_times()
    model = make(cls, n_estimators=4, **settings).fit(X, target, weight)
    return Fitted(model.set_params(n_estimators=6, warm_start=True).fit(X, target, weight), X)


WARM = {
    f"{BOOSTING}Regressor": ("outputs", {"colsample_bynode": 0.5}),
    f"{BOOSTING}Classifier": ("three", {"subsample": 0.7}),
    "RandomForestClassifier": ("three", {"oob_score": True}),
    "ExtraTreesRegressor": ("numbers", {"bootstrap": True}),
    "QuantileForestRegressor": ("numbers", {}),
    "IsolationForest": ("numbers", {"max_samples": 60}),
    "BaggingClassifier": ("two", {"max_features": 0.5}),
    "BaggingRegressor": ("numbers", {"estimator": TheirRegressor(max_depth=3, random_state=0)}),
    "AdaBoostClassifier": ("three", {}),
    "AdaBoostRegressor": ("numbers", {}),
    "StagewiseClassifier": ("two", {"subsample": 0.8}),
    "StagewiseRegressor": ("numbers", {}),
}


def warm_started(cls: str, target: str, settings: dict[str, Any]) -> Fitted:
    model, X = fit(cls, target, n_estimators=3, warm_start=True, **settings)
    return Fitted(model.set_params(n_estimators=5).fit(*first(target)[:2]), X)


for _cls, _settings in WARM.items():
    CASES[f"warm start/{_cls}"] = functools.partial(warm_started, _cls, *_settings)


@case("boosting/data frame")
def of_a_data_frame():
    import pandas as pd

    X, y, _ = rows_of("numbers")
    frame = pd.DataFrame(X, columns=list("abcdef"))
    frame["e"] = pd.Categorical(["n/a" if v == 7 else f"c{v:.0f}" for v in X[:, 4]])
    settings = {"monotonic_cst": {"a": 1}, "interaction_cst": [{"a", "e"}], "n_estimators": 5}
    return Fitted(make(f"{BOOSTING}Regressor", **settings).fit(frame[:N_FIT], y[:N_FIT]), frame)


@case("boosting/custom metric")
def with_a_metric():
    metric = public("ArrayMetric", "custom_metrics")(lambda y, score: abs(y - score).max())
    X, y, _ = first("numbers")
    model = make(f"{BOOSTING}Regressor", n_estimators=4, scoring=metric)
    return Fitted(model.fit(X, y, eval_set=last("numbers")[:2]), X)


@case("many fits/fit_many", f"{BOOSTING}Classifier", {"max_depth": [1, 3], "subsample": [0.5, 1.0]})
@case("many fits/fit_many trees", "DecisionTreeClassifier", {"max_depth": [1, None]})
def many(cls, grid):
    X, y, weight = first("three", True)
    small = {"n_estimators": 3} if cls.startswith(BOOSTING) else {}
    found = gpuens.fit_many(
        make(cls, **small), X, y, param_grid=grid, folds=3, sample_weight=weight
    )
    return [[Fitted(model, X) for model in models] for models in found]


@case("many fits/GridSearchCV", "GridSearchCV", {})
@case("many fits/RandomizedSearchCV", "RandomizedSearchCV", {"n_iter": 2, "random_state": 0})
def searched(cls, settings):
    X, y, _ = first("three")
    model = make(f"{BOOSTING}Classifier", n_estimators=3)
    search = getattr(gpuens, cls)(model, {"max_depth": [1, 2, 4]}, cv=3, **settings)
    search.fit(X, y)
    best = search.best_params_, Fitted(search.best_estimator_, X)
    return best, search.cv_results_["mean_test_score"]


# Trees and forests

CLASS_CRITERIA = ("gini", "entropy", "log_loss", "misclassification")
CRITERIA = ("squared_error", "friedman_mse", "absolute_error", "poisson")
OF_TREES = {
    "plain": {"weighted": True},
    "holes": {"holes": True},
    "bins": {"max_bins": 12, "holes": True},
    "best first": {"max_leaf_nodes": 9},
    "stops early": {"min_samples_split": 0.1, "min_samples_leaf": 4, "min_impurity_decrease": 0.01},
    "features": {"max_features": "sqrt", "max_depth": 6, "random_state": 3},
    "weight of leaves": {"min_weight_fraction_leaf": 0.05, "weighted": True},
    "pruned": {"ccp_alpha": 0.01},
    "random cuts": {"splitter": "random", "random_state": 1, "holes": True},
    "categories": CATEGORIES | {"holes": True},
}
OF_FORESTS = {
    "oob": {"oob_score": True, "bootstrap": True, "weighted": True, "n_estimators": 12},
    "holes": {"holes": True, "random_state": 4},
    "features": {"max_features": 2, "max_depth": 5},
    "exact": {"max_bins": None, "max_samples": 0.4, "bootstrap": True},
    "best first": {"max_leaf_nodes": 12, "ccp_alpha": 0.002},
    "categories": CATEGORIES | {"holes": True, "min_samples_leaf": 3},
}
MONOTONE = {"monotonic_cst": [1, -1, 0, 1, 0, 0]}
for _cls in ("DecisionTree", "ExtraTree"):
    _shared = {"max_depth": 6} if _cls == "ExtraTree" else {}
    add(f"{_cls}Classifier", f"{_cls}Classifier", "three", OF_TREES | {
        "monotone": MONOTONE | {"target": "two"},
        "outputs": {"target": "labels"},
        "balanced": {"class_weight": "balanced", "max_depth": 5},
        **{name: {"criterion": name, "max_depth": 5} for name in CLASS_CRITERIA},
    })  # fmt: skip
    add(f"{_cls}Regressor", f"{_cls}Regressor", "numbers", OF_TREES | {
        "monotone": MONOTONE | {"max_depth": 5},
        "outputs": {"target": "outputs", "weighted": True},
        **{name: {"criterion": name, "max_depth": 5, "target": "amounts"} for name in CRITERIA},
    })  # fmt: skip
for _cls in ("RandomForest", "ExtraTrees"):
    add(f"{_cls}Classifier", f"{_cls}Classifier", "three", OF_FORESTS | {
        "balanced": {"class_weight": "balanced", "target": "two"},
        "balanced samples": {"class_weight": "balanced_subsample", "bootstrap": True},
        "honest": {"honest": True, "weighted": True, "holes": True},
        "monotone": MONOTONE | {"target": "two"},
        "outputs": {"target": "labels", "criterion": "entropy"},
    }, n_estimators=5)  # fmt: skip
    add(f"{_cls}Regressor", f"{_cls}Regressor", "numbers", OF_FORESTS | {
        "monotone": MONOTONE,
        "honest": MONOTONE | {"honest": True, "weighted": True},
        "medians": {"criterion": "absolute_error", "max_depth": 4},
        "poisson": {"criterion": "poisson", "target": "counts", "min_samples_leaf": 5},
        "outputs": {"target": "outputs"},
    }, n_estimators=5)  # fmt: skip
add("ObliqueRandomForest", "ObliqueRandomForestClassifier", "three", {
    "chosen": {"weighted": True, "n_projections": 50},
    "sums": {"feature_combinations": 3, "n_projections": 50, "oob_score": True, "holes": True},
}, n_estimators=5)  # fmt: skip
add("ObliqueRandomForest", "ObliqueRandomForestRegressor", "numbers", {
    "monotone": MONOTONE | {"feature_combinations": 2.5, "n_projections": 50},
    "honest": {"honest": True, "feature_combinations": 3, "n_projections": 50},
}, n_estimators=5)  # fmt: skip
add("QuantileForest", "QuantileForestRegressor", "numbers", {
    "median": {"weighted": True},
    "quantiles": {"default_quantiles": [0.1, 0.9], "min_samples_leaf": 5, "oob_score": True},
    "mean": {"default_quantiles": "mean", "bootstrap": False, "max_features": 0.5, "holes": True},
}, n_estimators=5)  # fmt: skip
add("IsolationForest", "IsolationForest", "numbers", {
    "plain": {"holes": True},
    "features": {"max_features": 0.5, "max_samples": 64, "random_state": 2},
    "contamination": {"contamination": 0.1, "bootstrap": True, "max_samples": 0.5},
    "weighted": {"weighted": True, "max_samples": 50},
}, n_estimators=8)  # fmt: skip


@case("trees/pruned with further rows", "DecisionTreeClassifier", "three")
@case("trees/pruned with further numbers", "DecisionTreeRegressor", "numbers")
def pruned(cls, target):
    model, X = fit(cls, target, holes=True)
    path = model.cost_complexity_pruning_path(*first(target, True)[:2])
    return path.ccp_alphas, path.impurities, Fitted(model.prune(*last(target, True)), X)


@case("trees/nodes and text", "DecisionTreeClassifier", "three")
@case("trees/nodes and text of categories", "ExtraTreeRegressor", "numbers", **CATEGORIES)
def drawn(cls, target, **settings):
    tree = fit(cls, target, holes=True, max_depth=4, **settings).model
    text = gpuens.export_text(tree), gpuens.export_graphviz(tree)
    return text, [getattr(tree.tree_, name) for name in NODES.split()]


@case("forests/proximity", "RandomForestClassifier", "three")
@case("forests/proximity of numbers", "RandomForestRegressor", "numbers")
def neighbours(cls, target):
    forest = fit(cls, target, n_estimators=6).model
    X, y, weight = first(target)
    found = forest.oob_permutation_importance(X, y, sample_weight=weight, n_repeats=2)
    members = [tree.predict(X) for tree in forest.estimators_]
    return found.importances, forest.proximity(X[:50]), members


@case("forests/quantiles asked for")
def quantiles():
    forest, X = fit("QuantileForestRegressor", "numbers", n_estimators=6)
    return forest.predict(X, quantiles=[0.05, 0.5, 0.75]), forest.predict_interval(X, coverage=0.5)


# Ensembles of any members

NEAR = KNeighborsClassifier(3, algorithm="kd_tree")
NEAR_NUMBERS = KNeighborsRegressor(3, algorithm="kd_tree")
TREE = make("DecisionTreeClassifier", max_depth=3)
THEIR_TREE = TheirClassifier(max_depth=3, random_state=0)
THEIR_NUMBERS_TREE = TheirRegressor(max_depth=3, random_state=0)
NUMBERS_TREE = make("DecisionTreeRegressor", max_depth=3)
KINDS = [NUMBERS_TREE, TheirRegressor(max_depth=2, random_state=0), NEAR_NUMBERS]
OF_BAGS = {
    "trees": {"oob_score": True, "holes": True, "n_estimators": 12},
    "weighted": {"weighted": True, "max_samples": 0.5},
    "patches": {"max_features": 0.5, "max_samples": 100, "random_state": 7},
    "pasting": {"bootstrap": False, "max_samples": 0.6, "bootstrap_features": True},
}
add("BaggingClassifier", "BaggingClassifier", "three", OF_BAGS | {
    "foreign": {"estimator": THEIR_TREE, "oob_score": True, "n_estimators": 12},
    "neighbours": {"estimator": NEAR, "max_features": 0.5, "voting": "hard"},
    "boosting": {"estimator": make(f"{BOOSTING}Classifier", n_estimators=2), "target": "two"},
}, n_estimators=5)  # fmt: skip
add("BaggingRegressor", "BaggingRegressor", "numbers", OF_BAGS | {
    "foreign": {"estimator": THEIR_NUMBERS_TREE, "weighted": True},
    "neighbours": {"estimator": NEAR_NUMBERS, "max_features": 0.5},
    "outputs": {"estimator": NUMBERS_TREE, "target": "outputs"},
}, n_estimators=5)  # fmt: skip
add("AdaBoostClassifier", "AdaBoostClassifier", "three", {
    "two": {"target": "two", "holes": True},
    "three": {"weighted": True, "learning_rate": 0.5},
    "trees": {"estimator": TREE, "max_bins": None},
    "random trees": {"estimator": make("ExtraTreeClassifier", max_depth=3), "random_state": 3},
    "bayes": {"estimator": GaussianNB(), "target": "two"},
    "foreign trees": {"estimator": TheirClassifier(max_depth=2, random_state=0)},
    "boosting": {"estimator": make(f"{BOOSTING}Classifier", n_estimators=2), "n_estimators": 3},
}, n_estimators=6)  # fmt: skip
add("AdaBoostRegressor", "AdaBoostRegressor", "numbers", {
    "linear": {"holes": True},
    "square": {"loss": "square", "weighted": True},
    "exponential": {"loss": "exponential", "learning_rate": 0.5, "max_bins": None},
    "trees": {"estimator": make("DecisionTreeRegressor", max_leaf_nodes=9), "random_state": 3},
    "foreign trees": {"estimator": THEIR_NUMBERS_TREE, "loss": "square"},
    "neighbours": {"estimator": NEAR_NUMBERS},
}, n_estimators=6)  # fmt: skip
add("ThreeLearner", "ThreeLearnerBoostingClassifier", "two", {
    "stumps": {"holes": True},
    "bayes": {"estimator": GaussianNB(), "max_samples": 80, "random_state": 1},
})  # fmt: skip
OF_STAGES = {
    "plain": {"weighted": True},
    "kinds": {"estimator": KINDS},
    "in turn": {"estimator": KINDS, "selection": "cyclic", "subsample": 0.7},
    "no line search": {"line_search": False, "learning_rate": falling_rate, "holes": True},
    "early stopping": {"early_stopping": True, "n_estimators": 20, "learning_rate": 1.0,
                       "n_iter_no_change": 2},
}  # fmt: skip
add("StagewiseRegressor", "StagewiseRegressor", "numbers", OF_STAGES | {
    "absolute": {"loss": "absolute_error"},
    "huber": {"loss": "huber", "estimator": NEAR_NUMBERS},
    "quantiles": {"loss": "quantile", "quantile": [0.2, 0.8]},
    "poisson": {"loss": "poisson", "target": "counts", "weighted": True},
    "gamma": {"loss": "gamma", "target": "amounts", "line_search": False},
    "tweedie": {"loss": losses.Tweedie(power=1.3), "target": "claims"},
}, n_estimators=5)  # fmt: skip
add("StagewiseClassifier", "StagewiseClassifier", "three", OF_STAGES | {
    "two": {"target": "two", "learning_rate": [0.5, 0.4, 0.3, 0.2, 0.1]},
    "exponential": {"target": "two", "loss": "exponential", "estimator": KINDS[1]},
    "focal": {"loss": "focal"},
}, n_estimators=5)  # fmt: skip
MEMBERS = [("bayes", GaussianNB()), ("tree", TREE), ("near", NEAR),
           ("forest", make("RandomForestClassifier", n_estimators=5))]  # fmt: skip
NUMBERS_MEMBERS = [("their", TheirRegressor(max_depth=4, random_state=0)), ("tree", NUMBERS_TREE),
                   ("near", NEAR_NUMBERS), ("ada", make("AdaBoostRegressor", n_estimators=4)),
                   ("none", "drop")]  # fmt: skip


def greedy(predictions, y, sample_weight=None, **settings):
    select = public("greedy_weights", "model_weights", "combining.weights")
    return select(predictions, y, sample_weight, n_bags=4, **settings)


OF_VOTES = {
    "accuracy": {"weights": "accuracy"},
    "greedy": {"weights": "greedy", "random_state": 1},
    "function": {"weights": greedy, "validation_fraction": 60},
}
add("VotingClassifier", "VotingClassifier", "three", {
    "hard": {}, "hard weights": {"weights": [0.5, 2, 1, 1.7]},
    "soft": {"voting": "soft"}, "soft weights": {"voting": "soft", "weights": [0, 2, 1, 1]},
    "optimal": {"voting": "soft", "weights": "optimal"},
    "optimal two": {"voting": "soft", "weights": "optimal", "target": "two"},
    **{f"hard {name}": settings for name, settings in OF_VOTES.items()},
    **{f"soft {name}": settings | {"voting": "soft"} for name, settings in OF_VOTES.items()},
}, estimators=MEMBERS)  # fmt: skip
add("VotingRegressor", "VotingRegressor", "numbers", OF_VOTES | {
    "mean": {}, "weights": {"weights": [1, 0.5, 0, 2, 1]}, "optimal": {"weights": "optimal"},
    "outputs": {"weights": "optimal", "target": "outputs", "estimators": NUMBERS_MEMBERS[:3]},
}, estimators=NUMBERS_MEMBERS)  # fmt: skip
OF_STACKS = {
    "default": {},
    "passthrough": {"passthrough": True, "cv": 3},
    "holdout": {"cv": "holdout", "random_state": 2},
    "share": {"cv": 0.4},
    "splitter": {"cv": KFold(4, shuffle=True), "random_state": 5},
    "time": {"cv": TimeSeriesSplit(4)},
}
add("StackingClassifier", "StackingClassifier", "three", OF_STACKS | {
    "two": {"target": "two"},
    "decisions": {"stack_method": "predict", "estimators": [*MEMBERS, ("none", "drop")]},
    "forest": {"final_estimator": MEMBERS[-1][1], "passthrough": True},
    "boosting": {"final_estimator": make(f"{BOOSTING}Classifier", n_estimators=4), "cv": 3},
    "foreign": {"final_estimator": GaussianNB()},
    "layers": {"final_estimator": make("StackingClassifier", estimators=MEMBERS[:2]), "cv": 3},
}, estimators=MEMBERS)  # fmt: skip
add("StackingRegressor", "StackingRegressor", "numbers", OF_STACKS | {
    "boosting": {"final_estimator": make(f"{BOOSTING}Regressor", n_estimators=4)},
    "foreign": {"final_estimator": THEIR_NUMBERS_TREE, "passthrough": True},
    "layers": {"final_estimator": make("StackingRegressor", estimators=NUMBERS_MEMBERS[:2])},
    "outputs": {"target": "outputs", "estimators": NUMBERS_MEMBERS[:3]},
    "weighted": {"estimators": NUMBERS_MEMBERS[:2], "weighted": True},
}, estimators=NUMBERS_MEMBERS)  # fmt: skip


# Models with nothing set: rounds, rates and shapes of trees that the data decides

ONE_AND_ANOTHER = [("boosting", make(f"{BOOSTING}Regressor", random_state=0)), NUMBERS_MEMBERS[1]]
for _name, (_cls, _target, _settings) in {
    "regressor": (f"{BOOSTING}Regressor", "numbers", {"holes": True}),
    "two classes": (f"{BOOSTING}Classifier", "two", {}),
    "three classes": (f"{BOOSTING}Classifier", "three", {"weighted": True}),
    "categories": (f"{BOOSTING}Classifier", "two", CATEGORIES),
    "bag": ("BaggingClassifier", "three", {}),
    "bag of boosting": ("BaggingRegressor", "numbers", {
        "estimator": make(f"{BOOSTING}Regressor"), "n_estimators": 2}),
    "forest": ("RandomForestRegressor", "numbers", {}),
    "stack": ("StackingRegressor", "numbers", {"estimators": ONE_AND_ANOTHER}),
}.items():  # fmt: skip
    add("defaults", _cls, _target, {_name: _settings}, random_state=0)


@case("defaults/tuned regressor", "TunedRegressor", "numbers")
@case("defaults/tuned classifier", "TunedClassifier", "two")
def tuned_in_few_trials(cls, target):
    return fit(cls, target, budget=3, random_state=0)


@case("prefit/VotingClassifier", "Voting", "Classifier", voting="soft", weights="optimal")
@case("prefit/VotingRegressor", "Voting", "Regressor", weights="greedy")
@case("prefit/StackingClassifier", "Stacking", "Classifier")
@case("prefit/StackingRegressor", "Stacking", "Regressor")
def of_fitted_members(kind, of, **settings):
    target, members = ("three", MEMBERS) if of == "Classifier" else ("numbers", NUMBERS_MEMBERS[:3])
    fitted = [(name, clone(member).fit(*first(target)[:2])) for name, member in members]
    prefit = {"prefit": True} if kind == "Voting" else {"cv": "prefit"}
    X, y, _ = last(target)
    return Fitted(make(kind + of, estimators=fitted, **prefit, **settings).fit(X, y), X)


@case("VotingClassifier/eval set")
def vote_weighed_on_further_rows():
    model = make("VotingClassifier", estimators=MEMBERS, voting="soft", weights="greedy")
    X, y, _ = first("two")
    return Fitted(model.fit(X, y, eval_set=last("two")[:2]), X)


@case("StackingClassifier/groups")
def stack_of_groups():
    model = make("StackingClassifier", estimators=MEMBERS[:2], cv=GroupKFold(3))
    X, y, _ = first("three")
    return Fitted(model.fit(X, y, groups=np.arange(N_FIT) % 7), X)


@case("lbfgs-dependent/StackingClassifier of ten digits")
def stack_with_many_parameters():
    X, y = load_digits(return_X_y=True)
    members = [("bayes", GaussianNB(var_smoothing=0.1)), ("tree", TREE)]
    model = make("StackingClassifier", estimators=members, cv=3, passthrough=True)
    return Fitted(model.fit(X[:400], y[:400]), X[:400])


# What is said about models

for _target, _cls in (("numbers", "RandomForestRegressor"), ("two", "RandomForestClassifier"),
                      ("numbers", f"{BOOSTING}Regressor"), ("three", f"{BOOSTING}Classifier"),
                      ("numbers", "BaggingRegressor")):  # fmt: skip

    @case(f"inspection/{_cls}", _cls, _target)
    def inspected(cls, target):
        inspection = import_module("gpuens.inspection")
        model = fit(cls, target, n_estimators=5).model
        X, y, weight = last(target)
        dependence = functools.partial(inspection.partial_dependence, model, X, grid_resolution=7)
        partial = [dependence(features=f, kind=kind, method=method) for f, kind, method in [
            ([0], "average", "recursion"), ([1, 3], "average", "recursion"),
            ([2, 3], "average", "brute"), ([0], "both", "brute")]]  # fmt: skip
        shuffled = inspection.permutation_importance(model, X, y, n_repeats=3, sample_weight=weight)
        dropped = inspection.drop_column_importance(model, X, y, cv=2)
        pairs = inspection.h_statistic(model, X, [0, 1, 2], max_samples=30)
        kinds = ("gain", "cover", "frequency")
        return [
            [inspection.feature_importances(model, kind) for kind in kinds],
            [(p.grid_values, p.average, p.get("individual")) for p in partial],
            shuffled.importances, dropped.importances, pairs.h, pairs.joint_variance,
        ]  # fmt: skip


@case(
    "diversity/classes",
    "BaggingClassifier",
    "three",
    estimator=THEIR_TREE,
)
@case("diversity/forest", "RandomForestClassifier", "two")
def diverse(cls, target, **settings):
    diversity = import_module("gpuens.diversity")
    model = fit(cls, target, n_estimators=6, **settings).model
    X, y, _ = last(target)
    of_members = diversity.member_predictions(model, X)
    measures = f"{PAIRWISE} {OF_ENSEMBLE}".split()
    return of_members, [getattr(diversity, name)(model, y, X=X) for name in measures]


@case("diversity/numbers", "RandomForestRegressor")
@case("diversity/numbers of members", "BaggingRegressor")
def diverse_numbers(cls):
    diversity = import_module("gpuens.diversity")
    model = fit(cls, "numbers", n_estimators=6).model
    X, y, _ = last("numbers")
    spread = tuple(diversity.correlation_of_models(model, y, X=X))
    found = diversity.ambiguity_decomposition(model, y, X=X)
    ambiguity = found.error, found.mean_error, found.ambiguity, found.of_models, found.of_rows
    return spread, ambiguity, diversity.variance_of_average(*spread)


@case("bias and variance/numbers", NUMBERS_TREE, "numbers", 0.3)
@case("bias and variance/classes", TREE, "three", "out_of_bag")
@case("bias and variance/foreign", TheirClassifier(max_depth=2, random_state=0), "two", 0.4)
def parts_of_the_loss(estimator, target, test):
    measure = public("bias_variance", "bias_variance", "bias_variance.decomposition")
    found = measure(estimator, *first(target)[:2], rounds=8, test=test, random_state=1)
    return [getattr(found, name) for name in BIAS_VARIANCE.split()]


# Saved models and generated tables


@case("saving/boosting", f"{BOOSTING}Classifier", "three", n_estimators=3, **CATEGORIES)
@case("saving/forest", "RandomForestRegressor", "outputs", n_estimators=3, oob_score=True)
@case("saving/voting", "VotingClassifier", "two", estimators=[MEMBERS[1], MEMBERS[3]])
@case("saving/stagewise", "StagewiseRegressor", "counts", n_estimators=3, loss="poisson")
def saved_and_loaded(cls, target, **settings):
    model, X = fit(cls, target, **settings)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.gpuens"
        gpuens.save(model, path)
        return Fitted(gpuens.load(path), X)


for _path in sorted(SAVED.glob("*.gpuens")):

    @case(f"saved in format 1/{_path.stem}", _path)
    def loaded(path):
        return Fitted(gpuens.load(path), rows_of("numbers", True).X[:, :4])


for _name in """airline_like covtype_like friedman1 friedman2 friedman3 hastie_10_2 higgs_like moons
nested_spheres ringnorm spirals threenorm twonorm waveform wide_sparse""".split():

    @case(f"datasets/{_name}", f"make_{_name}")
    def generated(name):
        X, y = getattr(import_module("gpuens.datasets"), name)(30, random_state=3)
        return X, y


def fingerprint(name: str) -> str:
    """The fingerprint of one configuration, or the name of the error that it ends in."""
    digest = Digest()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            digest.add(CASES[name]())
    except Exception as error:
        return type(error).__name__
    return str(digest)


def fingerprints(names: Iterable[str] | None = None) -> dict[str, str]:
    """The fingerprints of some configurations, or of all, by name."""
    return {name: fingerprint(name) for name in (CASES if names is None else names)}


if __name__ == "__main__":
    found = json.dumps(fingerprints(), indent=1, sort_keys=True)
    Path(sys.argv[1]).write_text(found + "\n", encoding="utf-8")
