"""Reading the parameter ``monotonic_cst``."""

from __future__ import annotations

from typing import Any

import numpy as np


def monotone_constraints(
    monotonic_cst: Any, categorical: np.ndarray, n_classes: tuple[int, ...], n_outputs: int
) -> np.ndarray:
    """The constraint of each feature, int8.

    Parameters
    ----------
    monotonic_cst : array-like of int, shape (n_features,), or None
    categorical : bool, shape (n_features,)
    n_classes : tuple of int
        Empty for regression.
    n_outputs : int

    Raises
    ------
    ValueError
        Wrong length or entries, a constraint on a category, several outputs or classes.
    """
    n_features = categorical.size
    if monotonic_cst is None:
        return np.zeros(n_features, np.int8)
    constraints = np.asarray(monotonic_cst)
    if n_outputs > 1 and constraints.any():
        raise ValueError(
            "Monotonicity constraints are not supported with multiple outputs. y has "
            f"{n_outputs}: set monotonic_cst=None, or fit a model for each."
        )
    if constraints.ndim != 1:
        raise ValueError(
            "monotonic_cst must be None or a list with -1, 0 or 1 for each feature, got "
            f"{monotonic_cst!r}."
        )
    if constraints.size != n_features:
        raise ValueError(
            f"monotonic_cst has shape {constraints.size} but the input data X has {n_features} "
            "features. Pass -1, 0 or 1 for each of them."
        )
    if not bool(np.isin(constraints, (-1, 0, 1)).all()):
        raise ValueError(
            "monotonic_cst must be None or an array-like of -1, 0 or 1, but got "
            f"[{', '.join(sorted({str(c) for c in constraints.tolist()}))}]."
        )
    constraints = constraints.astype(np.int8)
    if not constraints.any():
        return constraints
    if n_classes and n_classes[0] > 2:
        raise ValueError(
            "Monotonicity constraints are not supported with multiclass classification. y has "
            f"{n_classes[0]} classes: set monotonic_cst=None."
        )
    wrong = np.flatnonzero((constraints != 0) & categorical)
    if wrong.size:
        raise ValueError(
            "Categorical features cannot have monotonic constraints: monotonic_cst constrains "
            f"feature {wrong[0]}, whose categories have no order. Set it to 0 there."
        )
    return constraints
