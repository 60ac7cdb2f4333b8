"""The estimators of gpuens and scikit-learn's at the same settings, by the names of the table.

Everything else has its default, which is the same in both. Trees, forests and
bagging are grown until their leaves are pure; forests, bagging and AdaBoost have half as many
trees as gradient boosting, the members of votes and stacks a quarter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error

from ..common import peers
from ..common.peers import OURS, percent_wrong

LEAVES = 16
"""Of AdaBoost's trees, at least."""


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
class Kind:
    """One line of the table: how it is made, where it is tried, what is measured."""

    make: Maker
    tables: tuple[str, ...]
    of_classes: tuple[str, Metric] = ("error in %", percent_wrong)
    of_numbers: tuple[str, Metric] = ("RMSE", root_mean_square)

    def metric(self, task: peers.Task) -> tuple[str, Metric]:
        return self.of_numbers if task == "regression" else self.of_classes


NUMBERS = ("california_housing", "bike")
LARGER = ("spambase", "adult", "letter", "satimage", *NUMBERS)
SMALL = ("vehicle", "image_segmentation", "glass", "ionosphere")
"""Tables that single trees and bags of them have been published for."""
FEW = ("spambase", "satimage", "california_housing")
OUTLIERS = ("breast_cancer_wisconsin", "ionosphere", "pima_diabetes", "satimage")
"""Tables whose outliers are the smaller class, of satimage the three smallest."""
LOG_LOSS = ("log loss", mean_log_loss)

ESTIMATORS = {
    "decision tree": Kind(single("DecisionTree"), (*LARGER, *SMALL)),
    "extra tree": Kind(single("ExtraTree"), LARGER),
    "bagging": Kind(many("Bagging"), ("spambase", "letter", "satimage", *NUMBERS, *SMALL)),
    "random forest": Kind(many("RandomForest"), (*LARGER, "glass", "ionosphere")),
    "extra trees": Kind(many("ExtraTrees"), LARGER),
    "AdaBoost": Kind(adaboost, ("spambase", "letter", "satimage", *NUMBERS, *SMALL[:2])),
    "gradient boosting": Kind(
        boosting, ("spambase", "adult", "satimage", *NUMBERS), of_classes=LOG_LOSS
    ),
    "voting": Kind(voting, FEW, of_classes=LOG_LOSS),
    "stacking": Kind(stacking, FEW, of_classes=LOG_LOSS),
    "isolation forest": Kind(
        isolation_forest, OUTLIERS, of_classes=("1 - AUC", above_the_curve)
    ),
}  # fmt: skip

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
