"""What ``bias_variance`` reads: the loss, the target, and the rows to train on and to test."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier, is_regressor

from ..devices.placement import CPU
from ..inputs.targets import read_labels, read_target
from ..inspection.columns import Columns, columns_of, require_same_features
from ..kernels.scalars import rng
from ..kernels.scalars.primitives import vectorise
from ..numerics.sampling import subset

PURPOSE_TEST_ROWS = np.uint64(1004)
"""Apart from the purposes of training, in ``kernels.scalars.rng``."""
LOSSES = ("auto", "squared", "zero_one")

_subkey = vectorise(rng.subkey)


class Split(NamedTuple):
    """Rows to train on and rows to test; ``rows`` are the latter in X, if they come from there."""

    train: Columns
    y_train: np.ndarray
    test: Columns
    y_test: np.ndarray
    rows: np.ndarray | None


def loss_of(estimator: Any, loss: Any) -> str:
    """The loss that fits the estimator."""
    if not (isinstance(loss, str) and loss in LOSSES):
        raise ValueError(f"loss must be {' or '.join(map(repr, LOSSES))}, got {loss!r}.")
    has_kind = hasattr(estimator, "fit") and hasattr(estimator, "predict")
    if not (has_kind and (is_classifier(estimator) or is_regressor(estimator))):
        raise TypeError(f"estimator must be a classifier or a regressor, got {estimator!r}.")
    fitting = "zero_one" if is_classifier(estimator) else "squared"
    if loss not in ("auto", fitting):
        kind = "classifier" if is_classifier(estimator) else "regressor"
        raise ValueError(f"loss={loss!r} does not fit a {kind}: pass {fitting!r} or 'auto'.")
    return fitting


def read_truth(y: Any, n_rows: int, loss: str, estimator: Any, name: str) -> np.ndarray:
    """The target on the host: numbers, or labels."""
    if loss == "squared":
        return read_target(y, n_rows, CPU, estimator=estimator, name=name)
    labels = read_labels(y, n_rows, CPU, estimator=estimator, name=name)
    return labels.classes[labels.codes]


def split_rows(
    columns: Columns, y: np.ndarray, test: Any, seed: int, loss: str, estimator: Any
) -> Split:
    """Part the rows as the argument ``test`` says."""
    n_rows = columns.shape[0]
    if isinstance(test, str) and test == "out_of_bag":
        return Split(columns, y, columns, y, np.arange(n_rows))
    if isinstance(test, (tuple, list)) and len(test) == 2:
        return Split(columns, y, *_other_rows(columns, y, test[0], test[1], loss, estimator), None)
    share = isinstance(test, Real) and not isinstance(test, (Integral, np.bool_))
    if not (share and 0 < float(test) < 1):
        raise ValueError(
            "test must be a share in (0, 1), 'out_of_bag' or a pair (X_test, y_test), got "
            f"{test!r}."
        )
    n_test = round(float(test) * n_rows)
    if not 0 < n_test < n_rows - 1:
        raise ValueError(
            f"test={test} of {n_rows} rows leaves {n_test} to test and {n_rows - n_test} to train "
            "on: pass more rows, or another share."
        )
    key = int(_subkey(np.uint64(seed), PURPOSE_TEST_ROWS, np.uint64(0)))
    outside = subset(n_rows, n_test, key, 0, CPU)
    inside = np.setdiff1d(np.arange(n_rows), outside)
    parts = (columns.take(columns.device.asarray(rows)) for rows in (inside, outside))
    train, tested = parts
    return Split(train, y[inside], tested, y[outside], outside)


def _other_rows(
    columns: Columns, y: np.ndarray, X_test: Any, y_test: Any, loss: str, estimator: Any
) -> tuple[Columns, np.ndarray]:
    tested = columns_of(X_test, estimator, "X_test")
    require_same_features(columns, tested, "X_test")
    truth = read_truth(y_test, tested.shape[0], loss, estimator, "y_test")
    if loss == "zero_one":
        known = set(y.tolist())
        if unknown := [label for label in np.unique(truth).tolist() if label not in known]:
            raise ValueError(
                f"y_test has labels that y does not have: {unknown}. No model can predict them."
            )
    return tested, truth
