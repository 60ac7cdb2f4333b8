"""The lines of the table of errors: estimators of gpuens and of other libraries at one setting.

Trees, forests and bagging are grown until their leaves are pure; forests, bagging and AdaBoost have
half as many trees as gradient boosting, the members of votes and stacks a quarter. Everything else
has its default, which is the same in scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error

from ..common import peers
from ..common.peers import BOTH, OURS, percent_wrong

LEAVES = 16
"""Fewest leaves of AdaBoost's trees."""


class Setup(NamedTuple):
    """The settings that estimators of all libraries are made from."""

    task: peers.Task
    trees: int
    threads: int
    seed: int
    n_classes: int = 0

    @property
    def kind(self) -> str:
        return "Regressor" if self.task == "regression" else "Classifier"


Maker = Callable[[str, Setup], Any]
Metric = Callable[[Any, np.ndarray, np.ndarray], float]


def at_lightgbm(library: str, setup: Setup, **more: Any) -> Any:
    """31 leaves, at least 20 rows and a hessian of 1e-3 a leaf, no regularisation, rate 0.1."""
    settings = peers.Settings(setup.trees, 31, threads=setup.threads, seed=setup.seed)
    return peers.estimator(library, setup.task, settings, **more)


def at_xgboost(library: str, setup: Setup) -> Any:
    """31 leaves, lambda = 1, a hessian of 1 a leaf, no least number of rows, rate 0.1.

    With K > 2 classes XGBoost's hessian is 2 p (1 - p), ours K / (K - 1) p (1 - p): the least
    hessian, lambda and the rate of ours are multiplied by K / (K - 1) / 2, which makes the two
    models the same in exact arithmetic.
    """
    settings = peers.Settings(
        setup.trees, 31, threads=setup.threads, seed=setup.seed, min_samples_leaf=1,
        min_sum_hessian=1.0, l2=1.0,
    )  # fmt: skip
    k = setup.n_classes
    if library == OURS and k > 2:
        half = k / (k - 1) / 2
        settings = replace(settings, min_sum_hessian=half, l2=half, learning_rate=0.1 * half)
    return peers.estimator(library, setup.task, settings)


def dart(library: str, setup: Setup) -> Any:
    """A tenth of the rounds is left out in every second round, all with the same probability and
    weighed as XGBoost weighs them."""
    return at_lightgbm(library, setup, **DART[library])


def linear(library: str, setup: Setup) -> Any:
    """Linear functions in the leaves without a penalty on their coefficients."""
    return at_lightgbm(library, setup, **LINEAR[library])


def build(library: str, name: str, setup: Setup, **parameters: Any) -> Any:
    """An estimator by the stem of its class."""
    return peers.build(library, f"{name}{setup.kind}", setup.threads, **parameters)


def single(name: str) -> Maker:
    return lambda library, setup: build(library, name, setup, random_state=setup.seed)


def many(name: str) -> Maker:
    """A forest or a bag of trees."""
    return lambda library, setup: build(
        library, name, setup, n_estimators=max(1, setup.trees // 2), random_state=setup.seed
    )


def adaboost(library: str, setup: Setup) -> Any:
    """Four leaves a class, at least 16: a tree without errors on its rows would be the last."""
    leaves = max(LEAVES, 4 * setup.n_classes)
    tree = build(library, "DecisionTree", setup, max_leaf_nodes=leaves, random_state=setup.seed)
    more = {"n_estimators": max(1, setup.trees // 2), "random_state": setup.seed}
    return build(library, "AdaBoost", setup, estimator=tree, **more)


def boosting(library: str, setup: Setup) -> Any:
    """31 leaves, at least 20 rows a leaf, no regularisation, rate 0.1.

    With K > 2 classes HistGradientBoosting's hessian is p (1 - p), ours K / (K - 1) times that;
    the rate and the least hessian of ours are multiplied by it, which makes them the same.
    """
    settings = peers.Settings(setup.trees, 31, threads=setup.threads, seed=setup.seed)
    if library != OURS:
        return peers.estimator("HistGB", setup.task, settings)
    k = setup.n_classes
    more = k / (k - 1) if k > 2 else 1.0
    settings = replace(settings, learning_rate=0.1 * more, min_sum_hessian=1e-3 * more)
    return peers.estimator(OURS, setup.task, settings)


def members(library: str, setup: Setup) -> list[tuple[str, Any]]:
    few = setup._replace(trees=max(1, setup.trees // 4))
    twice = few._replace(trees=2 * few.trees)
    return [
        ("forest", many("RandomForest")(library, twice)),
        ("extra trees", many("ExtraTrees")(library, twice)),
        ("boosting", boosting(library, few)),
    ]


def voting(library: str, setup: Setup) -> Any:
    soft = {} if setup.task == "regression" else {"voting": "soft"}
    return build(library, "Voting", setup, estimators=members(library, setup), **soft)


def stacking(library: str, setup: Setup) -> Any:
    """Five folds, each library's own logistic regression (classes) or ridge on top."""
    return build(library, "Stacking", setup, estimators=members(library, setup), cv=5)


def isolation_forest(library: str, setup: Setup) -> Any:
    return peers.build(
        library, "IsolationForest", setup.threads, n_estimators=setup.trees,
        random_state=setup.seed,
    )  # fmt: skip


def mean_log_loss(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(log_loss(y, peers.probabilities(model, X), labels=model.classes_))


def root_mean_square(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(root_mean_squared_error(y, model.predict(X)))


def above_the_curve(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The share of pairs of an outlier (1) and another row that are in the wrong order."""
    return 1.0 - float(roc_auc_score(y, -np.asarray(model.score_samples(X))))


@dataclass(frozen=True)
class Line:
    """One line of the table: how it is made, where it is tried, beside what, what is measured."""

    make: Maker
    tables: tuple[str, ...]
    of_classes: tuple[str, Metric] = ("error in %", percent_wrong)
    of_numbers: tuple[str, Metric] = ("RMSE", root_mean_square)
    libraries: tuple[str, ...] = BOTH

    def metric(self, task: peers.Task) -> tuple[str, Metric]:
        return self.of_numbers if task == "regression" else self.of_classes


DART = {
    OURS: {"dropout": 0.1, "skip_dropout": 0.5, "max_drop": 50},
    "LightGBM": {
        "boosting_type": "dart", "drop_rate": 0.1, "skip_drop": 0.5, "max_drop": 50,
        "uniform_drop": True, "xgboost_dart_mode": True,
    },
}  # fmt: skip
LINEAR = {OURS: {"linear_leaves": True}, "LightGBM": {"linear_tree": True}}
NUMBERS = ("california_housing", "bike")
LARGER = ("spambase", "adult", "letter", "satimage", *NUMBERS)
SMALL = ("vehicle", "image_segmentation", "glass", "ionosphere")
"""Tables that single trees and bags of them have been published for."""
FEW = ("spambase", "satimage", "california_housing")
OUTLIERS = ("breast_cancer_wisconsin", "ionosphere", "pima_diabetes", "satimage")
"""Tables whose outliers are the smaller class, of satimage the three smallest."""
LOG_LOSS = ("log loss", mean_log_loss)
OF_BOOSTING = (
    "spambase", "adult", "higgs_lightgbm", "covtype_first20k", "covtype_shares", *NUMBERS
)  # fmt: skip
"""Categories are used as numbers."""


def boosted(make: Maker, *others: str) -> Line:
    return Line(make, OF_BOOSTING, of_classes=LOG_LOSS, libraries=(OURS, *others))


BOOSTING = {
    "LightGBM's settings": boosted(at_lightgbm, "LightGBM"),
    "XGBoost's settings": boosted(at_xgboost, "XGBoost"),
    "DART, LightGBM's settings": boosted(dart, "LightGBM"),
    "linear leaves, LightGBM's settings": boosted(linear, "LightGBM"),
}  # fmt: skip

ESTIMATORS = {
    "decision tree": Line(single("DecisionTree"), (*LARGER, *SMALL)),
    "extra tree": Line(single("ExtraTree"), LARGER),
    "bagging": Line(many("Bagging"), ("spambase", "letter", "satimage", *NUMBERS, *SMALL)),
    "random forest": Line(many("RandomForest"), (*LARGER, "glass", "ionosphere")),
    "extra trees": Line(many("ExtraTrees"), LARGER),
    "AdaBoost": Line(adaboost, ("spambase", "letter", "satimage", *NUMBERS, *SMALL[:2])),
    "gradient boosting": Line(
        boosting, ("spambase", "adult", "satimage", *NUMBERS), of_classes=LOG_LOSS
    ),
    "voting": Line(voting, FEW, of_classes=LOG_LOSS),
    "stacking": Line(stacking, FEW, of_classes=LOG_LOSS),
    "isolation forest": Line(
        isolation_forest, OUTLIERS, of_classes=("1 - AUC", above_the_curve)
    ),
}  # fmt: skip
LINES = {**BOOSTING, **ESTIMATORS}

ESL = "Hastie et al. 2009"
BREIMAN_1996, BREIMAN_2001 = "Breiman 1996", "Breiman 2001"
FREUND = "C4.5 in Freund and Schapire 1996"
PUBLISHED: dict[tuple[str, str], tuple[float, str]] = {
    ("decision tree", "vehicle"): (29.9, FREUND),
    ("decision tree", "image_segmentation"): (3.6, FREUND),
    ("decision tree", "glass"): (30.4, BREIMAN_1996),
    ("decision tree", "ionosphere"): (11.2, BREIMAN_1996),
    ("bagging", "spambase"): (5.4, ESL),
    ("bagging", "vehicle"): (26.1, FREUND),
    ("bagging", "image_segmentation"): (2.7, FREUND),
    ("bagging", "glass"): (23.6, BREIMAN_1996),
    ("bagging", "ionosphere"): (7.9, BREIMAN_1996),
    ("random forest", "spambase"): (4.88, ESL),
    ("random forest", "glass"): (20.6, BREIMAN_2001),
    ("random forest", "ionosphere"): (7.1, BREIMAN_2001),
    ("AdaBoost", "vehicle"): (22.6, FREUND),
    ("AdaBoost", "image_segmentation"): (1.4, FREUND),
    ("gradient boosting", "adult"): (0.2872, "LightGBM's defaults, Prokhorenkova et al. 2018"),
}
"""Values that others have published, on splits (and with numbers of trees) of their own."""
