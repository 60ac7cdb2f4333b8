"""The estimators of gpuens and scikit-learn's at the same settings, by the names of the table.

Everything else has its default, which is the same in both. Trees, forests and
bagging are grown until their leaves are pure; forests, bagging and AdaBoost have half as many
trees as gradient boosting, the members of votes and stacks a quarter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import log_loss, mean_pinball_loss, roc_auc_score, root_mean_squared_error

from ..common import peers
from ..common.peers import OURS, percent_wrong

QUANTILES = (0.1, 0.5, 0.9)
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


def quantile_forest(library: str, setup: Setup) -> Any:
    """At least five rows a leaf; beside it the same weights on the leaves of scikit-learn's
    random forest, which has no such estimator."""
    settings = {"n_estimators": max(1, setup.trees // 2), "min_samples_leaf": 5,
                "random_state": setup.seed}  # fmt: skip
    if library != OURS:
        return QuantileForest(build(library, "RandomForest", setup, **settings))
    return peers.build(library, "QuantileForestRegressor", setup.threads, **settings)


def isolation_forest(library: str, setup: Setup) -> Any:
    return peers.build(
        library, "IsolationForest", setup.threads, n_estimators=setup.trees,
        random_state=setup.seed,
    )  # fmt: skip


def mean_log_loss(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(log_loss(y, peers.probabilities(model, X), labels=model.classes_))


def root_mean_square(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    return float(root_mean_squared_error(y, model.predict(X)))


def pinball(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """Mean over the quantiles."""
    predicted = model.predict(X, quantiles=list(QUANTILES))
    losses = [mean_pinball_loss(y, p, alpha=q) for q, p in zip(QUANTILES, predicted.T, strict=True)]
    return float(np.mean(losses))


def above_the_curve(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    """The share of pairs of an outlier (1) and another row that are in the wrong order."""
    return 1.0 - float(roc_auc_score(y, -np.asarray(model.score_samples(X))))


class QuantileForest:
    """A quantile regression forest on the leaves of scikit-learn's random forest.

    Meinshausen's weights: in each tree the training rows of a leaf share a weight of one, in
    proportion to how often they were drawn. The forest draws as many rows a tree as there are.
    """

    def __init__(self, forest: Any) -> None:
        self.forest = forest

    def fit(self, X: np.ndarray, y: np.ndarray) -> QuantileForest:
        self.forest.fit(X, y)
        order = np.argsort(y, kind="stable")
        self._y = y[order]
        leaves = self.forest.apply(X)[order]
        counts = [np.bincount(drawn, minlength=len(y)) for drawn in self.forest.estimators_samples_]
        drawn = np.column_stack(counts)[order].astype(float)
        sizes = [tree.tree_.node_count for tree in self.forest.estimators_]
        self._begin = np.cumsum([0, *sizes[:-1]])
        places = leaves + self._begin
        in_leaf = np.bincount(places.ravel(), drawn.ravel(), minlength=sum(sizes))
        weights = drawn / in_leaf[places] / len(sizes)
        self._weights = _sparse(places, weights, sum(sizes)).T.tocsr()
        return self

    def predict(self, X: np.ndarray, quantiles: Sequence[float]) -> np.ndarray:
        """The smallest target up to which the weights add up to q; shape (n, quantiles)."""
        places = self.forest.apply(X) + self._begin
        reached = _sparse(places, np.ones(places.shape), self._weights.shape[0])
        predicted = np.empty((len(X), len(quantiles)))
        weights = (reached @ self._weights).tocsr()
        weights.sort_indices()  # columns are training rows by ascending target
        for i in range(len(X)):
            own = slice(weights.indptr[i], weights.indptr[i + 1])
            total = np.cumsum(weights.data[own])
            at = np.searchsorted(total, np.asarray(quantiles) - 1e-12)
            predicted[i] = self._y[weights.indices[own][np.minimum(at, total.size - 1)]]
        return predicted


def _sparse(places: np.ndarray, values: np.ndarray, n_places: int) -> csr_array:
    """One row for each row of ``places``, shape (n, trees), with a value at each place."""
    n, n_trees = places.shape
    begin = np.arange(n + 1) * n_trees
    return csr_array((values.ravel(), places.ravel(), begin), shape=(n, n_places))


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
    "quantile forest": Kind(quantile_forest, NUMBERS, of_numbers=("pinball loss", pinball)),
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
