"""Class probabilities from raw predictions."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation


def probabilities(raw: Any) -> Any:
    """The logistic function for two classes, softmax for more.

    Parameters
    ----------
    raw : float64, shape (n_outputs, n_rows)
        One output: the log-odds of the second of two classes. Else one output a class.

    Returns
    -------
    float64, shape (n_rows, n_classes)
        One output f: ``p = sigmoid(f)`` and ``1 - p``. Else ``exp(raw - log_sum_exp(raw))``.
    """
    return implementation(__name__, raw).probabilities(raw)
