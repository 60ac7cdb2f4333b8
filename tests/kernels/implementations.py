"""One implementation of the operations, with the arrays that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numba import config

from gpuens.kernels.runtime.dispatch import Implementation, using
from gpuens.kernels.runtime.dtypes import NO_LEAF, ROW_ALIGNMENT, Codes, Scales, TreeRecords

SIMULATED = bool(config.ENABLE_CUDASIM)
SIMULATED_ROWS = 3000
"""The simulator runs Python."""


@dataclass(frozen=True)
class Target:
    """One implementation of the operations, and the arrays that it is given."""

    implementation: Implementation
    xp: Any

    def run(self, op: Callable[..., Any], *args: Any) -> Any:
        """Call an operation with this implementation."""
        with using(self.implementation):
            return op(*args)

    def rows(self, n: int, simulated: int = SIMULATED_ROWS) -> int:
        """At most n rows, and not more than a test can wait for in the simulator."""
        return min(n, simulated) if self.simulated else n

    @property
    def simulated(self) -> bool:
        return SIMULATED and self.implementation is Implementation.CUDA

    def array(self, values: Any) -> Any:
        """A copy of a NumPy array in the target's library, in NumPy read-only where that is."""
        copy = self.xp.asarray(values, copy=True)
        if isinstance(copy, np.ndarray) and isinstance(values, np.ndarray):
            copy.flags.writeable = values.flags.writeable
        return copy

    def host(self, array: Any) -> np.ndarray:
        """The NumPy copy of an array, which must be of the target's library."""
        assert isinstance(array, type(self.xp.zeros(1)))
        return array.get() if hasattr(array, "get") else np.array(np.from_dlpack(array))

    def leaves(self, leaf: np.ndarray) -> list[Any]:
        """Copies of the leaves of rows, negative where there is none, in all types it takes."""
        copies = [self.array(leaf.astype(np.int32))]
        if self.implementation is Implementation.CUDA:
            copies.append(self.array(np.where(leaf < 0, NO_LEAF, leaf).astype(np.uint16)))
        return copies

    def host_leaves(self, leaf: Any) -> np.ndarray:
        """The leaves of rows of any type, as int32."""
        found = self.host(leaf).astype(np.int32)
        return np.where(found == NO_LEAF, np.int32(-1), found)

    def view(self, array: Any, layout: Callable[[Any], Any]) -> Any:
        """A view with other strides."""
        view = layout(array)
        if self.simulated and not (view.flags.c_contiguous or view.flags.f_contiguous):
            pytest.skip("the simulator refuses arrays with gaps; hardware takes them")
        return view

    def tree_records(self, words: np.ndarray, scales: Scales, n_trees: int = 1) -> TreeRecords:
        """What growth takes, from records of the host, the same for all trees."""
        signed = words.astype(np.int64)
        sums = np.array([(signed >> 48).sum(), ((signed >> 32) & 0xFFFF).sum()])
        of_trees = (self.array(np.tile(own, (n_trees, 1))) for own in (words, sums))
        return TreeRecords(*of_trees, [scales] * n_trees)

    def codes(self, columns: np.ndarray) -> Codes:
        """Both copies of a binned table, given column after column."""
        n_features, n_rows = columns.shape
        rows = np.zeros((n_rows, -(-n_features // ROW_ALIGNMENT) * ROW_ALIGNMENT), np.uint8)
        rows[:, :n_features] = columns.T
        return Codes(self.array(rows), self.array(np.ascontiguousarray(columns)))
