"""The rows that members of a stack are fitted on, and those its meta-model learns from."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import check_cv

from ..devices.placement import is_sparse, to_numpy
from ..estimators.parameters import is_count, is_share
from ..estimators.validation import holdout_rows
from ..kernels.runtime.arrays import Array

PREFIT, HOLDOUT = "prefit", "holdout"
HOLDOUT_SHARE = 0.2
"""Share of the rows that ``cv="holdout"`` holds out."""


class Fold(NamedTuple):
    """Row numbers to fit on and to predict: int64 ndarrays."""

    seen: np.ndarray
    asked: np.ndarray


def check_folds(cv: Any) -> None:
    """Raise a ValueError unless the parameter ``cv`` of a stack is something that it can be."""
    if cv is None or is_share(cv) or (isinstance(cv, str) and cv in (PREFIT, HOLDOUT)):
        return
    if is_count(cv, 2):
        return
    if hasattr(cv, "split") and not isinstance(cv, (str, type)):
        return
    if isinstance(cv, Sequence) and not isinstance(cv, str) and len(cv) > 0:
        if all(isinstance(fold, (tuple, list)) and len(fold) == 2 for fold in cv):
            return
    raise ValueError(
        "cv must be None, a number of folds >= 2, a splitter of scikit-learn, a list of pairs "
        "(rows to fit on, rows to predict), 'prefit', 'holdout' or a share of the rows to hold "
        f"out in (0, 1), got {cv!r}."
    )


def is_holdout(cv: Any) -> bool:
    """Return whether the members are fitted once, on a part of the rows."""
    return is_share(cv) or (isinstance(cv, str) and cv == HOLDOUT)


def holdout_fold(cv: Any, target: Array, classifies: bool, seed: int) -> Fold:
    """Split the rows into two parts."""
    share = HOLDOUT_SHARE if isinstance(cv, str) else float(cv)
    codes = to_numpy(target) if classifies and target.ndim == 1 else None
    return Fold(*holdout_rows(target.shape[0], share, codes, seed, "cv"))


def folds_of(
    cv: Any, X: Any, target: np.ndarray, groups: Any, classifies: bool, seed: int
) -> list[Fold]:
    """Return the folds of a cross-validation, stratified if ``classifies`` and cv is a number;
    ``seed`` is for splitters that shuffle without one of their own. Raises a ValueError if a fold
    has no rows to fit on or to predict, or rows that do not exist."""
    n_rows = len(target)
    splitter = check_cv(cv, y=target, classifier=classifies)
    if getattr(splitter, "random_state", 0) is None:
        splitter = copy.copy(splitter)
        splitter.random_state = seed
    if groups is not None:
        groups = to_numpy(groups)
        if groups.shape != (n_rows,):
            raise ValueError(
                f"groups must hold one group for each of the {n_rows} rows of X, got shape "
                f"{groups.shape}."
            )
    folds = []
    for number, (seen, asked) in enumerate(splitter.split(X, target, groups)):
        fold = Fold(_row_numbers(seen), _row_numbers(asked))
        for what, rows in (("to fit on", fold.seen), ("to predict", fold.asked)):
            if rows.size == 0:
                raise ValueError(f"cv has no rows {what} in fold {number}. Choose other folds.")
            if rows.min() < 0 or rows.max() >= n_rows:
                raise ValueError(
                    f"cv names rows {what} from {rows.min()} to {rows.max()} in fold {number}, X "
                    f"has {n_rows}."
                )
        folds.append(fold)
    return folds


def _row_numbers(rows: Any) -> np.ndarray:
    rows = to_numpy(rows)
    return np.flatnonzero(rows) if rows.dtype == np.bool_ else rows.astype(np.int64)


def searches_rounds(estimator: Any) -> bool:
    """Return whether an estimator searches for its number of rounds, which its copies need."""
    return hasattr(estimator, "_with_rounds_found") and estimator.n_estimators == "auto"


def without_search(estimator: Any, fitted: Any, X: Any) -> Any:
    """Return what to fit on the folds: the estimator, or if it has searched for its number of
    rounds when it was fitted to all rows X, one that trains as many without a search."""
    of_rounds = getattr(fitted, "_with_rounds_found", None)
    return estimator if of_rounds is None else of_rounds(estimator, is_sparse(X))


def rows_asked(folds: Sequence[Fold], n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that the meta-model learns from, ascending and each as often as folds predict
    it, and their positions in what the folds predict, one fold after another. Warns of rows that no
    fold predicts."""
    asked = np.concatenate([fold.asked for fold in folds])
    order = np.argsort(asked, kind="stable")
    left_out = n_rows - np.unique(asked).size
    if left_out:
        warnings.warn(
            f"cv predicts {left_out} of the {n_rows} rows in no fold: the meta-model learns from "
            "the others only.",
            stacklevel=6,
        )
    return asked[order], order


def require_classes(rows: np.ndarray, codes: np.ndarray, classes: np.ndarray, where: str) -> None:
    """Raise a ValueError if some rows lack a class."""
    present = np.bincount(codes[rows], minlength=len(classes)) > 0
    if present.all():
        return
    missing = classes[~present].tolist()
    counts = np.bincount(codes, minlength=len(classes))[~present].tolist()
    raise ValueError(
        f"The rows {where} miss the class(es) {missing}, which y holds {counts} time(s). Choose "
        "folds that have all classes, such as sklearn.model_selection.StratifiedKFold with fewer "
        "folds, or drop the rows of rare classes."
    )
