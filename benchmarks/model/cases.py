"""The fits and predictions of the model, made small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from gpuens import (
    DecisionTreeClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from gpuens.datasets import make_covtype_like, make_higgs_like
from gpuens.devices.cards import Card
from gpuens.kernels.cart.cuda.grow_cart import CartBatch, likely_rounds

from .groups import OVER_NODES
from .large_nodes import launches_of_huge, levels_of, with_large_nodes, without_huge
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


def one_round(
    multiprocessors: int,
    X: np.ndarray,
    y: np.ndarray,
    settings: dict[str, Any],
    card: Card | None = None,
) -> Work:
    """Run three rounds of boosting and count the second, which is as all further ones."""
    model = GradientBoostingClassifier(
        n_estimators=3, max_bins=255, min_samples_leaf=1, early_stopping=False, device="cuda",
        **settings,
    )  # fmt: skip
    with recorded(multiprocessors, rounds(1, 2, FIRST_OF_A_ROUND), card) as recorder:
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


GROWN_TREES = 2
"""Trees of a forest that the machine grows in one batch."""
OF_EACH_TREE = ("count_hits", "count_rows", "list_rows")
"""Kernels that are launched for each tree of a batch."""
OF_THE_TABLE = ("codes", "classes", "values", "weight", "counts")
"""Arguments that all trees share, or have in turn."""


def forest(n_rows: int, n_trees: int, depth: int, multiprocessors: int) -> Work:
    """Return the work of a forest whose trees grow in one batch, from fewer trees on fewer rows.

    The nodes of a tree, and with them all its work, are proportional to the rows. Large nodes are
    not: the trees that they are taken from grow on the host, on all rows.
    """
    X, y = make_covtype_like(n_rows)
    model = RandomForestClassifier(GROWN_TREES, max_depth=depth, random_state=0, device="cpu")
    large = model.fit(X, y).forest_
    levels, more_rows = levels_of(large), MULTIPROCESSORS / multiprocessors
    share = n_rows // MULTIPROCESSORS * multiprocessors
    X, y = X[:share], y[:share]
    model.set_params(device="cuda")
    with pytest.MonkeyPatch.context() as patch:
        rounds = partial(likely_rounds, most_rows=int(levels.largest[0]))
        patch.setattr(CartBatch, "_likely_rounds", lambda batch: rounds(batch.limits))
        with recorded(multiprocessors, lambda kernel: kernel != "number_bins") as recorder:
            small = model.fit(X, y).forest_
        n_rounds = sum(each.kernel == "make_children" for each in recorder.work.launches)
        shallow = partial(model.set_params(max_depth=1).fit, X, y)
        rows = int(small.n_samples[0])
        of_huge = launches_of_huge(shallow, multiprocessors, rows, n_rounds, levels)
    work = with_large_nodes(recorder.work, levels_of(small).largest, levels.largest)
    nodes = large.feature.size / small.feature.size
    work = scaled(replace(work, launches=[*work.launches, *of_huge]), more_rows)
    return of_trees(work, n_trees // GROWN_TREES, work.downloaded * nodes / more_rows)


def of_trees(work: Work, times: int, downloaded: float) -> Work:
    """Return the work of a batch of so many times the trees; ``downloaded`` are the bytes of the
    trees so far."""
    of_each = [launch for launch in work.launches if launch.kernel in OF_EACH_TREE]
    others = [launch for launch in work.launches if launch.kernel not in OF_EACH_TREE]
    n_trees = times * GROWN_TREES
    more = work.others + Counter(fill=n_trees, copy=n_trees)  # of the draws, and of the records
    together = scaled(Work(others, more, work.waits, downloaded), times, OF_THE_TABLE)
    return replace(together, launches=[*of_each * times, *together.launches])


def exact_tree(n_rows: int, depth: int, multiprocessors: int) -> Work:
    """Return the work of a tree with a bin for every value, from a tree on fewer rows, without the
    sorts of its lists, which are the array library's."""
    X, y = make_higgs_like(n_rows, 28)
    model = DecisionTreeClassifier(max_depth=depth, random_state=0, device="cpu")
    large = model.fit(X, y).forest_
    levels, more_rows = levels_of(large), MULTIPROCESSORS / multiprocessors
    share = n_rows // MULTIPROCESSORS * multiprocessors
    X, y = X[:share], y[:share]
    model.set_params(device="cuda")
    with recorded(multiprocessors, lambda kernel: True) as recorder:
        small = model.fit(X, y).forest_
    n_rounds = sum(each.kernel == "make_children" for each in recorder.work.launches)
    shallow = partial(model.set_params(max_depth=1).fit, X, y)
    of_huge = launches_of_huge(shallow, multiprocessors, share, n_rounds, levels)
    work = with_large_nodes(recorder.work, levels_of(small).largest, levels.largest)
    work = without_huge(work, levels)
    return scaled(replace(work, launches=[*work.launches, *of_huge]), more_rows)


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
        "Forest, 465k × 54, 7 classes, 100 trees of depth 30 in one batch", 465_000, 54,
        partial(forest, 465_000, 100, 30, 1), "fit", 1,
    ),
    "1M × 28, exact": Case(
        "Exact tree, 1M × 28, depth 10, without the sorts", M, 28,
        partial(exact_tree, M, 10, 2), "fit", 1,
    ),
}  # fmt: skip
"""By the name that ``gpu_check`` gives them."""
