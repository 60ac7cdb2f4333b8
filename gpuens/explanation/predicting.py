"""Explanations in place of predictions: ``predict(X, pred_contribs=True)``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..devices.placement import Device
from ..kernels.runtime.arrays import Array
from .explainer import TreeExplainer


def explained(model: Any, X: Any, contribs: Any, interactions: Any) -> Any:
    """Return contributions, or interactions, with the expected value behind the features.

    Returns
    -------
    float64, shape (n_rows, n_features + 1), or (n_rows, n_features + 1, n_features + 1)
        Of several outputs (n_rows, n_outputs, ...). The last entry is the expected value, the
        sum of all is the raw prediction.

    Raises
    ------
    ValueError
        Both are wanted, or one of them is not a bool.
    """
    for name, value in (("pred_contribs", contribs), ("pred_interactions", interactions)):
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be True or False, got {value!r}.")
    if contribs and interactions:
        raise ValueError(
            "pred_contribs and pred_interactions are both set: a prediction is one or the other."
        )
    explainer = TreeExplainer(model)
    expected = np.atleast_1d(explainer.expected_value)

    def with_expected(values: Array, device: Device) -> Array:
        shape = (values.shape[0], values.shape[-1], *(n + 1 for n in values.shape[1:-1]))
        result = device.xp.zeros(shape)
        features = (slice(-1),) * (values.ndim - 2)
        result[(slice(None), slice(None), *features)] = values.transpose(
            0, values.ndim - 1, *range(1, values.ndim - 1)
        )
        result[(slice(None), slice(None), *(-1,) * len(features))] = device.asarray(expected)
        return result[:, 0] if expected.size == 1 else result

    return explainer._explained(X, interactions, with_expected)
