"""From raw predictions to class probabilities."""

from __future__ import annotations

from ..runtime.arrays import Array
from ..runtime.dispatch import implementation


def log_sum_exp(raw: Array) -> Array:
    """Return ``m + log(sum_k exp(raw[k] - m))`` with ``m = max_k raw[k]`` for every row.

    Parameters
    ----------
    raw : float64, shape (n_classes, n_rows) or (n_models, n_classes, n_rows)

    Returns
    -------
    float64, shape (n_rows,) or (n_models, n_rows)
        With the exp and log of ``scalars.elementary``; classes are added in their order.
    """
    return implementation(__name__, raw).log_sum_exp(raw)


def probabilities(raw: Array) -> Array:
    """Return class probabilities: the logistic function for two classes, softmax for more.

    Parameters
    ----------
    raw : float64, shape (n_outputs, n_rows)
        One output: the log-odds of the second of two classes. Else one output a class.

    Returns
    -------
    float64, shape (n_rows, n_classes)
        One output f: ``p = sigmoid(f)`` and ``1 - p``. Else ``exp(raw - log_sum_exp(raw))``; where
        that logarithm is lost, beyond 2^20, ``exp(d - log_sum_exp(d))`` with d = raw less the
        largest of the row. Linear leaves extrapolate that far, and to infinity.
    """
    return implementation(__name__, raw).probabilities(raw)
