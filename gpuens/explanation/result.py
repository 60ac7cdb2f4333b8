"""Shapley values of rows together with the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Explanation:
    """The result of an explainer where shap is not installed; the attributes are those of
    ``shap.Explanation``.

    Parameters
    ----------
    values : float64, shape (n_rows, n_features) or (n_rows, n_features, n_outputs)
    base_values : float64, shape (n_rows,) or (n_rows, n_outputs)
        The expected value.
    data : array, shape (n_rows, n_features)
    feature_names : list of str, or None
    """

    values: np.ndarray
    base_values: np.ndarray
    data: np.ndarray
    feature_names: list[str] | None = None
