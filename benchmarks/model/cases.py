"""The fits and predictions of the model, made small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gpuens import GradientBoostingClassifier, RandomForestClassifier
from gpuens.datasets import make_covtype_like, make_higgs_like

from .groups import OVER_NODES
from .launches import Work, extrapolated, scaled
from .profile import recorded, rounds

MULTIPROCESSORS = 132
"""Of the card whose blocks are taken as a measure: those of the H100."""
THREE_VALUED = (8, 12, 16, 20)
"""The columns of HIGGS with three values."""
FIRST_OF_A_ROUND = "gradients_of_chunks"


@dataclass(frozen=True)
class Case:
    """Something that is modelled.

    Parameters
    ----------
    title : str
    n_rows, n_features : int
        Of the table that is meant.
    measure : callable
        Returns the work of one ``unit``.
    unit : str
    units : int
        Of the whole fit or prediction.
    """

    title: str
    n_rows: int
    n_features: int
    measure: Callable[[], Work]
    unit: str = "round"
    units: int = 100


def higgs_like(n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a table like HIGGS, with as many columns of three values."""
    X, y = make_higgs_like(n_rows, 28)
    for column in THREE_VALUED:
        low, high = np.quantile(X[:, column], [1 / 3, 2 / 3])
        X[:, column] = (X[:, column] > low) + 1.0 * (X[:, column] > high)
    return X, y


def boosting(n_rows: int, sizes: tuple[int, int], **settings: Any) -> Work:
    """Return the work of one round of boosting, extrapolated from two fits.

    Parameters
    ----------
    n_rows : int
    sizes : tuple of int
        Multiprocessors of the fits, each with its share of the rows. The table of the second is
        that of the first several times, so that both grow the same trees.
    **settings
        Of the estimator.
    """
    share = n_rows // MULTIPROCESSORS
    X, y = higgs_like(share * sizes[0])
    found = []
    for multiprocessors in sizes:
        times = multiprocessors // sizes[0]
        table = np.tile(X, (times, 1)), np.tile(y, times)
        found.append(one_round(multiprocessors, *table, settings))
    ahead = (MULTIPROCESSORS - sizes[0]) / (sizes[1] - sizes[0])
    return extrapolated(*found, ahead, OVER_NODES)


def as_it_is(n_rows: int, **settings: Any) -> Work:
    """Return the work of one round of boosting on a table that is small enough."""
    return one_round(MULTIPROCESSORS, *higgs_like(n_rows), settings)


def one_round(multiprocessors: int, X: np.ndarray, y: np.ndarray, settings: dict[str, Any]) -> Work:
    """Run three rounds of boosting and count the second, which is as all further ones."""
    model = GradientBoostingClassifier(
        n_estimators=3, max_bins=255, min_samples_leaf=1, early_stopping=False, device="cuda",
        **settings,
    )  # fmt: skip
    with recorded(multiprocessors, rounds(1, 2, FIRST_OF_A_ROUND)) as recorder:
        model.fit(X, y)
    return recorder.work


PREDICTED_ROWS, PREDICTED_TREES = 2048, (20, 40)
"""Of predictions on the machine."""
OF_THE_TREES = ("pieces", "words", "offset", "value", "output")
"""Arguments that are the forest's."""


def prediction(n_rows: int, n_trees: int, depth: int) -> Work:
    """Return the work of a prediction, from a smaller table and two smaller forests."""
    X, y = higgs_like(20_000)
    found = []
    for grown in PREDICTED_TREES:
        model = GradientBoostingClassifier(
            n_estimators=grown, max_depth=depth, max_leaf_nodes=None, min_samples_leaf=1,
            early_stopping=False, device="cpu",
        ).fit(X, y)  # fmt: skip
        model.set_params(device="cuda")
        with recorded(1, lambda kernel: kernel not in ("fill", "pack_nodes")) as recorder:
            model.predict_proba(X[:PREDICTED_ROWS])
        found.append(recorder.work)
    few, more = PREDICTED_TREES
    work = extrapolated(*found, (n_trees - few) / (more - few))
    return scaled(work, n_rows / PREDICTED_ROWS, OF_THE_TREES)


def forest(n_rows: int, n_trees: int, depth: int, multiprocessors: int) -> Work:
    """Return the work of a batch of trees of a forest, proportionally from a smaller table.

    A tree's nodes, and with them all its work, are proportional to the rows. A batch on a card has
    more trees than one here, and as many launches for them.
    """
    X, y = make_covtype_like(n_rows // MULTIPROCESSORS * multiprocessors)
    model = RandomForestClassifier(n_trees, max_depth=depth, random_state=0, device="cuda")
    with recorded(multiprocessors, lambda kernel: kernel != "number_bins") as recorder:
        model.fit(X, y)
    return scaled(recorder.work, MULTIPROCESSORS / multiprocessors)


M = 1_000_000
CASES = {
    "11M × 28, depth 8": Case(
        "Boosting, 11M × 28, 255 bins, depth 8", 11 * M, 28,
        partial(boosting, 11 * M, (1, 2), max_depth=8, max_leaf_nodes=None),
    ),
    "11M × 28, 255 leaves": Case(
        "Boosting, 11M × 28, 255 bins, leaf-wise, 255 leaves", 11 * M, 28,
        partial(boosting, 11 * M, (3, 6), max_depth=None, max_leaf_nodes=255),
    ),
    "100k × 28": Case(
        "Boosting, 100k × 28, 255 bins, depth 6", 100_000, 28,
        partial(as_it_is, 100_000, max_depth=6, max_leaf_nodes=None),
    ),
    "10M × 28": Case(
        "Prediction, 10M × 28, 500 trees of depth 8", 10 * M, 28,
        partial(prediction, 10 * M, 500, 8), "call", 1,
    ),
    "465k × 54, 100 trees, depth 30": Case(
        "Forest, 465k × 54, 7 classes, depth 30, two trees at a time", 465_000, 54,
        partial(forest, 465_000, 2, 30, 1), "batch", 50,
    ),
}  # fmt: skip
"""By the name that ``gpu_check`` gives them."""
