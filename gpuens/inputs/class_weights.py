"""The factors that ``class_weight`` puts on the weights of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import compute_class_weight


def class_factors(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray | None
) -> np.ndarray:
    """The factor of each class.

    Parameters
    ----------
    class_weight : dict or "balanced"
        "balanced" gives every class that occurs the same sum of weights, and leaves their
        total as it is. (scikit-learn's trees count rows here, whatever their weights.)
    classes : ndarray, shape (n_classes,)
    codes : int64, shape (n_rows,)
        Class numbers of the rows.
    weight : float64, shape (n_rows,), or None

    Returns
    -------
    float64, shape (n_classes,)

    Raises
    ------
    ValueError
        A key of the dict is no class.
    """
    total = np.bincount(codes, weight, minlength=len(classes)).astype(np.float64)
    occurs = np.flatnonzero(total)
    factors = np.ones(len(classes))
    if isinstance(class_weight, dict):
        factors[occurs] = compute_class_weight(
            class_weight, classes=classes[occurs], y=classes[codes]
        )
    else:
        factors[occurs] = total.sum() / (occurs.size * total[occurs])
    return factors
