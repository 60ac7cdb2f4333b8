"""Tables with fewer rows than bins, whose columns are coded together."""

from __future__ import annotations

import numpy as np
import pytest

from gpuens.devices.placement import CPU
from gpuens.kernels.runtime.cpu.team import using_threads
from gpuens.trees import table
from gpuens.trees.table import cart_table


def codes(X, max_bins, n_threads=1):
    n = X.shape[1]
    none, free = np.zeros(n, np.int32), np.zeros(n, np.int8)
    with using_threads(n_threads):
        return cart_table(
            X, n_categories=none, monotone=free, max_bins=max_bins, seed=0, device=CPU
        )


@pytest.mark.parametrize("max_bins", [None, 255, 60])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_rows", [1, 2, 60, 254])
def test_codes_are_those_of_columns_by_themselves(max_bins, dtype, order, n_rows, monkeypatch):
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, 40))
    X[:, 10:20] = rng.integers(-2, 3, (n_rows, 10))
    X[rng.random(X.shape) < 0.1] = np.nan
    X[rng.random(X.shape) < 0.05] = np.inf
    X[rng.random(X.shape) < 0.05] = -np.inf
    X[:, 5], X[:, 6], X[:, 7] = np.nan, 3.0, np.arange(n_rows)
    X = np.asarray(X, dtype, order=order)
    monkeypatch.setattr(table, "BLOCK_CELLS", 7 * n_rows)
    found = [codes(X, max_bins), codes(X, max_bins, n_threads=2)]
    monkeypatch.setattr(table, "has_few_rows", lambda *size: False)
    expected = codes(X, max_bins)
    for result in found:
        for name, ours, theirs in zip(expected._fields, result, expected, strict=True):
            np.testing.assert_array_equal(ours, theirs, strict=True, err_msg=name)
