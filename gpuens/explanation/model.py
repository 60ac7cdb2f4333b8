"""What explanations need to know of a model: trees whose values are added up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..devices.placement import Device
from ..forest.forest import Forest
from ..kernels.runtime.arrays import Array


@dataclass(frozen=True)
class SumOfTrees:
    """A model whose raw prediction is ``base + scale * (sum of the trees)``.

    Parameters
    ----------
    forest : Forest
    base : float64, shape (n_outputs,)
    scale : float
        1 / number of trees where the trees are averaged.
    read : (X, device, name) -> float32 or float64, shape (n_rows, n_features), on the device
        Rows as the trees take them; ``name`` is that of X in errors.
    n_threads : int
    """

    forest: Forest
    base: np.ndarray
    scale: float
    read: Callable[[Any, Device, str], Array]
    n_threads: int


def sum_of_trees(model: Any) -> SumOfTrees:
    """Return the trees of a fitted model.

    Raises
    ------
    TypeError
        The model is not of this package, or does not add up the values of its trees.
    sklearn.exceptions.NotFittedError
    """
    describe = getattr(model, "_sum_of_trees", None)
    if describe is None or isinstance(model, type):
        kind = model.__name__ if isinstance(model, type) else type(model).__name__
        raise TypeError(
            f"model must be a fitted gradient boosting, random forest, extra trees, decision tree "
            f"or isolation forest model of gpuens, a bag of its trees, or a model imported with "
            f"gpuens.from_xgboost and the like, got {kind}. Predictions of other models are not "
            "sums of the values of trees: use gpuens.inspection.permutation_importance, or shap."
        )
    described: SumOfTrees = describe()
    return described
