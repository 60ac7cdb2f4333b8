"""Normaliser of the multinomial model."""

from __future__ import annotations

from typing import Any

from ..runtime.dispatch import implementation


def log_sum_exp(raw: Any) -> Any:
    """``m + log(sum_k exp(raw[k] - m))`` with ``m = max_k raw[k]``, for every row.

    Parameters
    ----------
    raw : float64, shape (n_classes, n_rows)

    Returns
    -------
    float64, shape (n_rows,)
        With the exp and log of ``scalars.elementary``; classes are added in their order.
    """
    return implementation(__name__, raw).log_sum_exp(raw)
