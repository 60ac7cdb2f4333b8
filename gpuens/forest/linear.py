"""Forests whose leaves hold linear functions of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np

from ..devices.placement import CPU, Device
from ..kernels.prediction.linear_leaves import LinearLeaves, add_linear_values
from ..kernels.prediction.traverse import leaf_indices
from ..kernels.runtime.arrays import Array
from .forest import Forest

LEAVES_AT_ONCE = 2**22
"""Most leaf numbers of rows that are looked up together."""


@dataclass(frozen=True, eq=False)
class LinearForest(Forest):
    """A forest of width 1 whose leaves add linear functions of the features.

    A row adds ``intercept[leaf]`` and ``coefficient[c] * x[linear_feature[c]]`` for the
    coefficients of its leaf, in their order. Where that is not finite, which it is not with a
    missing value in one of these features, it adds ``value[leaf]``.

    Parameters
    ----------
    linear_begin : int64, shape (n_nodes + 1,)
        Node i has the coefficients ``linear_begin[i]:linear_begin[i + 1]``; inner nodes, and leaves
        with a constant, have none.
    linear_feature : int32, shape (n_coefficients,)
    coefficient : float64, shape (n_coefficients,)
    intercept : float64, shape (n_nodes,)
        ``value`` where there are no coefficients.

    See Also
    --------
    Forest : has the other parameters.
    """

    linear_begin: np.ndarray
    linear_feature: np.ndarray
    coefficient: np.ndarray
    intercept: np.ndarray

    @classmethod
    def of(cls, forest: Forest) -> LinearForest:
        """Return a forest with constants as linear functions; a linear one is returned as it is."""
        if isinstance(forest, LinearForest):
            return forest
        parts = {field.name: getattr(forest, field.name) for field in fields(Forest)}
        return cls(
            **parts,
            linear_begin=np.zeros(forest.feature.size + 1, np.int64),
            linear_feature=np.empty(0, np.int32),
            coefficient=np.empty(0),
            intercept=forest.value[:, 0].copy(),
        )

    @classmethod
    def concatenate(cls, forests: Sequence[Forest]) -> LinearForest:
        linear = [cls.of(forest) for forest in forests]
        joined: Any = super().concatenate(linear)
        sizes = [np.diff(forest.linear_begin) for forest in linear]
        begin = np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
        names = "linear_feature", "coefficient", "intercept"
        parts: dict[str, Any] = {
            name: np.concatenate([getattr(forest, name) for forest in linear]) for name in names
        }
        whole: LinearForest = replace(joined, linear_begin=begin, **parts)
        return whole

    def slice(self, first: int, last: int) -> Self:
        nodes = slice(int(self.offset[first]), int(self.offset[last]))
        begin = self.linear_begin[nodes.start : nodes.stop + 1]
        own = slice(int(begin[0]), int(begin[-1]))
        return replace(
            super().slice(first, last),
            linear_begin=begin - begin[0],
            linear_feature=self.linear_feature[own],
            coefficient=self.coefficient[own],
            intercept=self.intercept[nodes],
        )

    def tree_predict(self, X: Array, device: Device = CPU) -> Array:
        with device.active():
            added = [
                self.slice(t, t + 1)._added(X, device)[int(self.output[t])]
                for t in range(self.n_trees)
            ]
            nothing = device.xp.empty((X.shape[0], 0), dtype=device.xp.float64)
            return device.xp.stack(added, axis=1) if added else nothing

    def _added(self, X: Array, device: Device) -> Array:
        return replace(self, base=np.zeros_like(self.base)).raw_predict(X, device)

    def _add_rows(self, raw: Array, X: Array, device: Device) -> None:
        trees, leaves = self._trees_on(device), self._linear_on(device)
        step = max(1, LEAVES_AT_ONCE // self.n_trees)
        for begin in range(0, X.shape[0], step):
            rows = slice(begin, begin + step)
            whole = begin == 0 and step >= X.shape[0]
            part = raw if whole else raw[:, rows].copy()
            add_linear_values(leaves, X[rows], leaf_indices(trees, X[rows]), part)
            if not whole:
                raw[:, rows] = part

    def _linear_on(self, device: Device) -> LinearLeaves:
        """Return the arrays of the leaves, copied to a device once."""
        kept: dict[Device, LinearLeaves] = self.__dict__.setdefault("_kept_linear", {})
        if device not in kept:
            arrays = (
                self.offset, self.output, self.linear_begin, self.linear_feature,
                self.coefficient, self.intercept, np.ascontiguousarray(self.value[:, 0]),
            )  # fmt: skip
            kept[device] = device.settled(LinearLeaves(*map(device.asarray, arrays)))
        return kept[device]

    def _with_features(self, features: np.ndarray) -> Self:
        place = np.searchsorted(features, self.linear_feature).astype(np.int32)
        return replace(super()._with_features(features), linear_feature=place)
