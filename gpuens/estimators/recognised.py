"""Recognition by scikit-learn's ``partial_dependence``, which then takes the recursion.

It calls a method of the estimator, but only of instances of three of its own classes. These are
abstract base classes, where others can be registered that have the methods (PEP 3119) and are not
derived from them.
"""

from __future__ import annotations

import sys
from abc import ABCMeta
from importlib import import_module
from typing import Any, ClassVar

import numpy as np


class HasRecursion:
    """Mixin of estimators of trees for scikit-learn's ``partial_dependence(method="recursion")``.

    They become virtual subclasses when scikit-learn asks for their tags, as it does first: before,
    its module may not be loaded, which takes longer than training.
    """

    _recursive_base: ClassVar[tuple[str, str]]
    """The class of scikit-learn: its module, and its name."""

    def __sklearn_tags__(self) -> Any:
        module, name = self._recursive_base
        base = getattr(sys.modules.get(module), name, None)
        if isinstance(base, ABCMeta):
            base.register(type(self))
        return super().__sklearn_tags__()  # type: ignore[misc]

    def _compute_partial_dependence_recursion(self, grid: Any, target_features: Any) -> np.ndarray:
        """Return the mean raw prediction at each point of a grid.

        Parameters
        ----------
        grid : array, shape (n_points, n_target_features)
            Values of the features; text of categorical ones.
        target_features : array of int, shape (n_target_features,)

        Returns
        -------
        float64, shape (n_outputs, n_points)
        """
        means = import_module("gpuens.inspection.dependence_recursion").means_at_points
        found: np.ndarray = means(self, grid, target_features)
        return found
