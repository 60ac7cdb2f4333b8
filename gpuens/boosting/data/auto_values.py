"""The values that "auto" stands for in the parameters of gradient boosting.

With ``n_estimators="auto"`` rows that are held out decide the number of rounds (see
``boosting.auto``). Then low rates, and rounds that see a part of the table each, pay: the other
parameters are "auto" too. Where no rows can be held out, and with a number of rounds, they are what
a hundred rounds want.
"""

from __future__ import annotations

import copy
from typing import Any

from sklearn.base import clone

from ...estimators.parameters import AUTO_LEAF_ROWS
from ...losses import Loss
from ...losses.classes import ClassLoss

AUTO = "auto"
MOST_ROUNDS, FEWEST_ROUNDS = 2000, 300
"""Most rounds of ``n_estimators="auto"``: of at most ``SEVERAL_ROWS`` rows, and of very many."""
SEVERAL_ROWS = 20_000
FIXED_ROUNDS, FIXED_RATE = 100, 0.1
"""Rounds where no rows can be held out; the rate of a given number of rounds."""
LEAST_ROWS = 50
"""Rows below which none are held out."""
N_PARTS = 10
"""Parts of the rows, one of which a training of ``n_estimators="auto"`` holds out."""
ROWS_HELD_OUT = 500
"""Rows that such trainings hold out at least, if there are so many."""
SUBSAMPLE, COLSAMPLE = 0.8, 0.6
LEAF_ROWS_OF_LEVELS = 1
"""Fewest rows of a leaf of a symmetric tree, which shares its splits and cannot isolate rows where
it likes, when rounds are searched for."""
MOST_LEAVES = 31
"""The default of ``max_leaf_nodes``."""
MOST_FEATURES_OF_LEVELS = 256
"""Features from which on the histograms of all nodes of a level take much memory."""


def most_rounds(estimator: Any, n_rows: int = 0) -> Any:
    """Return the number of rounds asked for, which may be unchecked; the most of "auto" for so many
    rows."""
    if estimator.n_estimators != AUTO:
        return estimator.n_estimators
    few = (SEVERAL_ROWS / max(n_rows, SEVERAL_ROWS)) ** 0.5
    most = max(round(MOST_ROUNDS * few), FEWEST_ROUNDS)
    rate = estimator.learning_rate
    has_one_each = hasattr(rate, "__len__") and not isinstance(rate, str)
    return len(rate) if has_one_each else most


def folds_of(n_rows: int) -> int:
    """Return how many trainings hold out some of so many rows, for ``n_estimators="auto"``."""
    return min(max(-(-ROWS_HELD_OUT * N_PARTS // n_rows), 1), N_PARTS // 2)


def settled(
    estimator: Any, loss: Loss, n_rows: int, is_sparse: bool, continues: bool, stops_early: bool
) -> Any:
    """Return a copy of an estimator in which numbers stand for "auto". ``n_estimators`` remains so
    where rounds are searched for, or early stopping ends them.

    Parameters
    ----------
    estimator : BoostingEstimator
    loss : Loss
        Of the training rows.
    n_rows : int
        To train on: those that have a weight.
    is_sparse : bool
        Whether the table is sparse: drawing features at nodes would read all of its columns.
    continues : bool
        Whether a model goes on, or workers share the rows: none can be held out.
    stops_early : bool
    """
    chosen = copy.copy(estimator)
    starts = getattr(estimator, "init", None) not in (None, "zero")
    is_measured = loss.has_value or estimator.scoring != "loss"
    can_hold_out = is_measured and not (continues or starts or estimator.dropout)
    can_hold_out = can_hold_out and n_rows >= LEAST_ROWS
    searches = estimator.n_estimators == AUTO and can_hold_out and not stops_early
    if estimator.n_estimators == AUTO and not (searches or stops_early):
        chosen.n_estimators = FIXED_ROUNDS
    several = loss.n_outputs > 2 and isinstance(loss, ClassLoss) and not estimator.linear_leaves
    strategy = estimator.multi_strategy
    if strategy == AUTO:
        strategy = "multi_output_tree" if searches and several else "one_output_per_tree"
    one_tree = strategy == "multi_output_tree" and loss.n_outputs > 1
    draws_rows = searches and estimator.sampling == "uniform"
    draws_features = searches and estimator.max_features is None and not is_sparse
    is_symmetric = searches and estimator.grow_policy == "symmetric" and not estimator.linear_leaves
    found = {
        "min_samples_leaf": LEAF_ROWS_OF_LEVELS if is_symmetric else AUTO_LEAF_ROWS,
        "learning_rate": rate_for(n_rows, one_tree) if searches else FIXED_RATE,
        "subsample": SUBSAMPLE if draws_rows else 1.0,
        "colsample_bynode": COLSAMPLE if draws_features else 1.0,
        "multi_strategy": strategy,
        "grow_policy": "lossguide",
        "cat_hash_groups": 1,  # of features that ``steps.ranked_categories`` does not rank
    }
    for name, value in found.items():
        given = getattr(estimator, name)
        if isinstance(given, str) and given == AUTO:  # rates may be an array
            setattr(chosen, name, value)
    return chosen


def with_rounds_found(estimator: Any, model: Any, is_sparse: bool) -> Any:
    """Return an estimator that trains as a fitted one does after its search for rounds, without
    the search: as many rounds, at the rate and of the shape of trees that it found.

    Parameters
    ----------
    estimator : BoostingEstimator
        What the model is a clone of, with callbacks and random states that no training has used;
        returned itself if the model has not searched.
    model : BoostingEstimator
        Fitted.
    is_sparse : bool
        Whether its table was sparse.
    """
    if not hasattr(model, "grow_policy_"):
        return estimator
    of_shape = clone(estimator).set_params(grow_policy=model.grow_policy_)
    numbers = settled(of_shape, model._fitted_loss, LEAST_ROWS, is_sparse, False, False)
    names = "subsample", "colsample_bynode", "multi_strategy", "min_samples_leaf"
    found = {name: getattr(numbers, name) for name in names}
    found["learning_rate"] = getattr(model, "learning_rate_", estimator.learning_rate)
    return clone(estimator).set_params(
        n_estimators=model.n_iter_, grow_policy=model.grow_policy_, early_stopping=False, **found
    )


def tries_symmetric(estimator: Any, shape: tuple[int, int]) -> bool:
    """Return whether a search for rounds tries symmetric trees as well: on tables of few rows,
    where it is soon done, and where no other limit of trees is set."""
    n_rows, n_features = shape
    is_small = n_rows <= SEVERAL_ROWS and n_features <= MOST_FEATURES_OF_LEVELS
    has_no_limit = estimator.max_leaf_nodes == MOST_LEAVES and estimator.max_depth is None
    is_constant = not estimator.linear_leaves
    return estimator.grow_policy == AUTO and is_small and has_no_limit and is_constant


def rate_for(n_rows: int, one_tree: bool) -> float:
    """Return the learning rate for so many training rows: smaller for fewer, where rounds are cheap
    and noise is not, and larger where a tree serves all outputs."""
    return min(max(0.05 * (n_rows / 6000) ** 0.2, 0.025), 0.1) * (1.0 + 0.5 * one_tree)
